from __future__ import annotations

import json

import pytest

from services.core.problem import Problem, ScorerKind
from services.core.scoring.grade import Outcome
from services.core.scoring.rules import grade_rules
from services.core.scoring.scorer import Graders, agree, grade
from tests.support.mathematics import read_rows, shared_data


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        ("42", "42", True),
        ("42", "42.04", True),
        ("42", "42.05", False),
        ("3.14", "3.1415", True),
        ("3.14", "3.2", False),
        ("0", "0.0000001", True),
        ("0", "0.01", False),
        ("3e-36", "0", False),
        ("3e-36", "3.001e-36", True),
        ("-3", "3", False),
        ("$1,000", "1000", True),
        ("$5.00", "5 dollars", True),
        ("25163", "25,163", True),
        ("50%", "0.5", True),
        ("50%", "50", True),
        ("0.5", "50%", True),
        ("0.5", "0.5%", True),
        ("1000 J", "1000 joules", True),
        ("12", "The answer is 12 meters", True),
        ("12", "between 12 and 13", False),
        ("20", "about 20.01", True),
        ("1898.27", "x = 1898.3 J", True),
        ("5.333", "16/3", True),
        ("1/3", "0.3333", True),
        ("1.0472", r"\frac{\pi}{3}", True),
        (r"2\pi", "6.283", True),
        (r"2\pi", "2", False),
        ("6.02e23", "6.02 x 10^{23}", True),
        (r"6.02 \times 10^{23}", r"6.022 \times 10^{23}", True),
        ("4e-05", "0.00004", True),
        ("Photosynthesis", "photosynthesis", True),
        ("cat", "a chat", False),
        ("(c)", "c", True),
        ("True", "true", True),
        ("True", "Yes, it is", True),
        ("True", "not true", False),
        ("False", "No", True),
        ("False", "True", False),
        ("[4, 2]", "4, 2", True),
        ("[4, 2]", "(2, 4)", False),
        ("[4, 2]", "[4, 2, 1]", False),
        ("[0.6667, -0.6667]", "0.6667 and -0.6667", True),
        ("3", r"so \boxed{3}", True),
    ],
)
def test_rules(reference: str, answer: str, equal: bool) -> None:
    assert (grade_rules(reference, answer).reward == 1.0) is equal


def test_nothing_to_compare_is_no_answer() -> None:
    found = grade(
        Problem("p", "f", "q", ScorerKind.RULES, "3"), "I tried. It went on and on, to no end.", None, Graders()
    )
    assert (found.reward, found.outcome) == (0.0, Outcome.NO_ANSWER)


def test_agreement() -> None:
    assert agree(ScorerKind.RULES, "3.14", "3.141")
    assert not agree(ScorerKind.RULES, "3.14", None)


def test_every_answer_of_theoremqa_meets_itself_and_no_other_sign() -> None:
    for row in read_rows(shared_data() / "theoremqa" / "test.jsonl"):
        answer = row["Answer"] if isinstance(row["Answer"], str) else json.dumps(row["Answer"])
        assert grade_rules(answer, answer).reward == 1.0, answer
        if row["Answer_type"] in ("integer", "float") and row["Answer"]:
            assert grade_rules(answer, f"The answer is {row['Answer']}").reward == 1.0, answer
            assert grade_rules(answer, str(-row["Answer"])).reward == 0.0, answer
