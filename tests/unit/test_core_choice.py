from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.errors import Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.choice import chosen_letter, grade_choice
from services.core.scoring.grade import Outcome
from services.core.scoring.scorer import Graders, agree, check_reference, grade
from tests.support.mathematics import DATA, read_rows

FOUR = ("Paris", "London", "Rome", "Berlin")


def problem(answer: str, choices: tuple[str, ...] = FOUR) -> Problem:
    return Problem("p1", "family", "question", ScorerKind.CHOICE, answer, choices=choices)


def options(row: dict[str, Any]) -> list[str]:
    given = row["choices"]
    return [f"option number {index}" for index in range(given)] if isinstance(given, int) else given


def test_the_labelled_replies() -> None:
    rows = read_rows(DATA / "choice_replies.jsonl")
    assert len(rows) >= 120
    assert len({row["language"] for row in rows}) >= 8
    misses = [
        (row["reply"], row["letter"], found)
        for row in rows
        if (found := chosen_letter(row["reply"], options(row))) != row["letter"]
    ]
    assert misses == []


def test_no_option_is_another_outcome_than_the_wrong_one() -> None:
    assert grade(problem("B"), "Answer: B", None, Graders()).outcome is Outcome.CORRECT
    assert grade(problem("B"), "Answer: C", None, Graders()).outcome is Outcome.WRONG
    unparsable = grade(problem("B"), "A, B", None, Graders())
    assert (unparsable.reward, unparsable.outcome) == (0.0, Outcome.NO_ANSWER)
    assert unparsable.detail


@pytest.mark.parametrize(
    ("answer", "choices"),
    [("E", FOUR), ("", FOUR), ("Paris", FOUR), ("A", ()), ("A", ("one",)), ("A", tuple(map(str, range(27))))],
)
def test_references_that_cannot_judge(answer: str, choices: tuple[str, ...]) -> None:
    with pytest.raises(Unscorable, match="p1"):
        check_reference(problem(answer, choices))


def test_references_in_brackets_are_letters() -> None:
    check_reference(problem("(c)"))
    assert grade_choice("(c)", "C", FOUR).reward == 1.0


def test_agreement() -> None:
    assert agree(ScorerKind.CHOICE, "B", "The answer is (b).")
    assert not agree(ScorerKind.CHOICE, "B", "C")
    assert not agree(ScorerKind.CHOICE, "B", "")
    assert agree(ScorerKind.CHOICE, "none of them", "None of them.")


@given(
    st.integers(0, 9),
    st.sampled_from(["{}", "({})", "Answer: {}", "The answer is {}.", "**{}**", "\\boxed{{{}}}", "Option {}"]),
)
def test_every_letter_in_every_form(index: int, form: str) -> None:
    letter = string.ascii_uppercase[index]
    assert chosen_letter(form.format(letter), [f"choice {number}" for number in range(10)]) == letter


@given(st.text(alphabet="ABCabcI (),.:\n'\"*$\\{}answeristhot答案是", max_size=60))
def test_no_text_makes_the_scorer_raise(reply: str) -> None:
    assert chosen_letter(reply, FOUR) in ("A", "B", "C", "D", None)


@pytest.mark.parametrize("text", ["(" * 20_000, '"' * 20_000, "answer: " * 20_000, "<answer>" * 20_000, "A " * 20_000])
def test_hostile_replies_choose_nothing(text: str) -> None:
    assert chosen_letter(text, FOUR) is None
