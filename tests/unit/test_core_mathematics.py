from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.errors import PrerequisiteMissing, Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.extraction import final_answer
from services.core.scoring.grade import Outcome
from services.core.scoring.mathematics import compare, grade_mathematics, readable
from services.core.scoring.rational import out_of_reach, parse_close, parse_exact
from services.core.scoring.scorer import Graders, agree, check_reference, grade
from tests.support.mathematics import labelled_pairs, read_rows, shared_data


class Asked:
    """Notes what would have gone to the symbolic comparison, and knows nothing."""

    name = "nobody"

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def equal(self, reference: str, answer: str) -> bool | None:
        self.pairs.append((reference, answer))
        return None


def problem(answer: str) -> Problem:
    return Problem("p1", "family", "question", ScorerKind.MATHEMATICS, answer)


@pytest.mark.parametrize(
    ("text", "final"),
    [
        (r"\boxed{4}", "4"),
        (r"First \boxed{3}, but actually \boxed{4}", "4"),
        (r"x = \boxed{1} or x = \boxed{2}", "1, 2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{4}}", "4"),
        (r"\boxed 7", "7"),
        ("\\boxed{3}\n> quoted: \\boxed{4}", "3"),
        ("> quoted: \\boxed{4}", "4"),
        (r"the box \boxed{4 is cut off", None),
        (r"\boxed{}", None),
        ("<answer>70</answer>", "70"),
        ("<answer>7</answer> no: <answer>$8$</answer>", "$8$"),
        ('{"reasoning": "\\boxed{3} or so", "answer": "70"}', "70"),
        ('{"reasoning": "none", "answer": "\\\\frac{1}{2}"}', r"\frac{1}{2}"),
        ('{"answer": "\\frac{1}{2}"}', r"\frac{1}{2}"),
        ('{"answer": [1, 2]}', "[1, 2]"),
        ('{"answer": null}', None),
        ("We tried \\boxed{3}.\nFinal answer: 4", "4"),
        ("Final answer: 3\nNo. \\boxed{4}", "4"),
        ("**Answer:**\n$x^2$", "$x^2$"),
        ("The final answer is $\\frac12$. I hope it is correct.", r"$\frac12$"),
        ("The answer is correct. Hence $4$", "4"),
        ("So we get\n\\[ x = 4 \\]\nand are done.", "x = 4"),
        ("Display $$a$$ then $$b$$ end", "b"),
        ("#### 42", "42"),
        ("42", "42"),
        ("no real solution", "no real solution"),
        ("This is a long text about nothing. It has two sentences and no result at all.", None),
        ("", None),
        (" \n ", None),
    ],
)
def test_the_last_final_expression_is_found(text: str, final: str | None) -> None:
    found = final_answer(text)
    assert found == final or (found is not None and final is not None and found.strip(" $") == final.strip(" $"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", Fraction(2469, 2)),
        (r"\frac{1}{2^{99}}", Fraction(1, 2**99)),
        (r"1\frac{4}{5}", Fraction(9, 5)),
        ("1 4/5", Fraction(9, 5)),
        ("-1 4/5", Fraction(-9, 5)),
        ("1 000 000", Fraction(10**6)),
        (r"3 \times 10^{-4}", Fraction(3, 10**4)),
        ("6.02e23", Fraction(602 * 10**21)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        ("5!/3!", Fraction(20)),
        ("-2^2", Fraction(-4)),
        ("2(3)(4)", Fraction(24)),
        ("1 2", None),
        ("1/0", None),
        ("x", None),
        ("9^{9^{9^9}}", None),
        ("1" * 500, None),
        ("(" * 100 + "1" + ")" * 100, None),
        ("", None),
    ],
)
def test_exact_values(text: str, value: Fraction | None) -> None:
    assert parse_exact(text) == value


def test_closed_forms_are_close() -> None:
    assert abs(float(parse_close(r"\frac{\pi}{3}") or 0) - 1.0471975511965976) < 1e-15
    assert abs(float(parse_close(r"2\sqrt{2}") or 0) - 2.8284271247461903) < 1e-15
    assert parse_exact(r"\pi") is None


@pytest.mark.parametrize("text", ["9^{9^{9^9}}", "10^{10^{10}}", "(10^9)!", "2^{2^{2^{2^{2^{2}}}}}"])
def test_numbers_out_of_reach(text: str) -> None:
    assert out_of_reach(text)
    asked = Asked()
    assert compare("4", text, asked).equal is False
    assert asked.pairs == []


@given(st.fractions(max_denominator=10**6))
def test_fractions_in_any_writing(value: Fraction) -> None:
    top, bottom = value.numerator, value.denominator
    for text in (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", rf"\boxed{{\dfrac{{{top}}}{{{bottom}}}}}"):
        assert compare(rf"\frac{{{top}}}{{{bottom}}}", final_answer(text) or "", None).equal is True
    assert compare(f"{top}/{bottom}", f"{top + 1}/{bottom}", None).equal is False


SIGNS = r"1 23 x { } ( ) [ ] , = < ^ _ $ \ + - / ! % . e | & : \{ \}"
COMMANDS = r"\frac \le \pm \text{ \sqrt \cup \infty \boxed{ \\ \begin{pmatrix} \end{pmatrix} \in \approx answer: meters"
PIECES = st.sampled_from([*SIGNS.split(), *COMMANDS.split(), " or ", " and ", "\u221a", "\u00bd", "\n", "\x00"])


@given(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=12).map("".join))
def test_no_text_makes_the_scorer_raise(answer: str, reference: str) -> None:
    assert grade_mathematics(reference, answer, Asked()).reward in (0.0, 1.0)
    readable(reference)


HOSTILE = {
    "fractions": r"\frac{1}{" * 3000 + "4" + "}" * 3000,
    "a megabyte": "x" * 10**6,
    "a megabyte of words": "the answer is " * 70_000,
    "dollars": "$" * 20_000,
    "boxes": r"\boxed{" * 20_000,
    "brackets": "(" * 20_000,
    "tags": "<answer>" * 20_000,
    "fields": '"answer": "' * 20_000,
    "digits": "7" * 10**6,
    "displays": "\\[" * 20_000,
    "lists": "1, " * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_never_get_to_the_symbolic_comparison_whole(name: str) -> None:
    asked = Asked()
    assert grade_mathematics("4", HOSTILE[name], asked).reward == 0.0
    assert all(len(answer) <= 400 for _, answer in asked.pairs)


def test_what_is_decided_by_whom() -> None:
    asked = Asked()
    for reference, answer in (
        ("42", "42.0"),
        (r"\text{even}", "neve"),
        ("4210_{7}", "4210_{8}"),
        ("(1,2)", r"\{1,2\}"),
    ):
        assert grade_mathematics(reference, answer, asked).decided_by in ("text", "exact comparison")
    assert asked.pairs == []
    undecided = grade_mathematics("x+1", "1+x", asked)
    assert asked.pairs == [("x+1", "1+x")]
    assert (undecided.outcome, undecided.decided_by) == (Outcome.WRONG, "nobody")
    assert "not compared" in undecided.detail


def test_no_expression_is_another_outcome_than_a_wrong_one() -> None:
    assert grade(problem("4"), "5", None, Graders()).outcome is Outcome.WRONG
    lost = grade(problem("4"), "I tried. It went on and on and nothing came of it.", None, Graders())
    assert (lost.reward, lost.outcome) == (0.0, Outcome.NO_ANSWER)
    assert grade(problem("4"), r"\boxed{4}", None, Graders()).outcome is Outcome.CORRECT


def test_no_expression_in_a_reply_that_was_cut_off() -> None:
    assert grade(problem("4"), r"so \boxed{4", None, Graders(), truncated=True).outcome is Outcome.TRUNCATED
    assert grade(problem("4"), "5", None, Graders(), truncated=True).outcome is Outcome.WRONG


def test_a_missing_symbolic_comparison_is_said_and_no_reward() -> None:
    with pytest.raises(PrerequisiteMissing, match="math-verify"):
        grade(problem("x+1"), "1+x", None, Graders())


def test_agreement_without_symbolic_comparison() -> None:
    assert agree(ScorerKind.MATHEMATICS, r"\frac12", "0.5")
    assert not agree(ScorerKind.MATHEMATICS, "x+1", "1+x")
    assert not agree(ScorerKind.MATHEMATICS, "x+1", None)


@pytest.mark.parametrize("answer", ["", "   ", "$$", r"\frac{1}{2", "}{", "1" * 3000, "(" * 100 + "1" + ")" * 100])
def test_references_that_cannot_judge(answer: str) -> None:
    with pytest.raises(Unscorable, match="p1"):
        check_reference(problem(answer))


def test_every_labelled_reference_can_judge() -> None:
    assert [pair.reference for pair in labelled_pairs() if not readable(pair.reference)] == []


def test_math500_references_and_solutions() -> None:
    rows = read_rows(shared_data() / "math500" / "test.jsonl")
    assert len(rows) == 500
    for row in rows:
        check_reference(problem(row["answer"]))
        assert grade_mathematics(row["answer"], row["answer"], None).reward == 1.0
        assert grade_mathematics(row["answer"], row["solution"], None).reward == 1.0, row["answer"]


def test_the_reason_stays_short_and_printable() -> None:
    for reply in ("\x00" * 300 + "1", "\U0001f600" * 300, r"\boxed{" + "\x7f" * 900 + "}"):
        detail = grade_mathematics("4", reply, Asked()).detail
        assert len(detail) <= 500
        assert "\x00" not in detail
