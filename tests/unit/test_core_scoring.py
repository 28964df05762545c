from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.errors import Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.literal import literal_value
from services.core.scoring.numeric import parse_number
from services.core.scoring.scorer import Graders, agree, check_reference, grade


def problem(scorer: ScorerKind, answer: str | None = None, scores: dict[str, float] | None = None) -> Problem:
    return Problem("p1", "family", "question", scorer, answer, scores or {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        (" -42. ", -42),
        ("+7", 7),
        ("\u22123", -3),
        ("1,234,567.50", Fraction(2469135, 2)),
        ("$1,000", 1000),
        ("-$5", -5),
        ("$-5", -5),
        ("\\$18", 18),
        ("50%", 50),
        ("12.5 \\%", Fraction(25, 2)),
        ("3/4", Fraction(3, 4)),
        ("-6 / 8", Fraction(-3, 4)),
        ("1e3", 1000),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_numbers(text: str, value: Fraction | int) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    ["", ".", "-", "--5", "-$-5", "1,23", "12,3456", "1/0", "5 apples", "1 2", "nan", "inf", "0x10", "1_000", "\u0663",
     "1e999", "9" * 500, "1/2/3", "1e", "$"],
)  # fmt: skip
def test_no_numbers(text: str) -> None:
    assert parse_number(text) is None


@given(st.integers(-(10**12), 10**12))
def test_thousands_separators_change_nothing(value: int) -> None:
    assert parse_number(f"{value:,}") == parse_number(str(value)) == value


@given(st.fractions(max_denominator=10**6))
def test_fractions_are_exact(value: Fraction) -> None:
    assert parse_number(f"{value.numerator}/{value.denominator}") == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(value: object) -> None:
    assert parse_number(str(value)) == Fraction(str(value))


def test_no_tolerance() -> None:
    assert grade(problem(ScorerKind.NUMERIC, "1/3"), "0.333333", None, Graders()).reward == 0.0


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("True", "1", False),
        ("1", "1.0", True),
        ("[1, 2]", "(1, 2)", False),
        ("[1,2]", " [1, 2] ", True),
        ("{0, 8}", "{8, 0}", True),
        ("{'a': 1, 'b': [True]}", "{'b': [True], 'a': 1}", True),
        ("{'a': True}", "{'a': 1}", False),
        ("{True: 0}", "{1: 0}", False),
        ("'abc'", "abc", True),
        ("'abc'", "ABC", False),
        ("'5'", "5", False),
        ("b'x'", "'x'", False),
        ("None", "'None'", False),
        ("'a\\nb'", '"a\\nb"', True),
        ("'\\d'", "'\\d'", True),
        ("1e999", "1e998", True),
        ("__import__('os')", "__import__('os')", True),
        ("[[1]", "[[1]]", False),
        ("{[]: 1}", "{[]: 1}", True),
    ],
)
def test_literals(a: str, b: str, same: bool) -> None:
    assert agree(ScorerKind.LITERAL, a, b) is same


@pytest.mark.parametrize("text", ["[" * 9_000, "-" * 9_000 + "1", "(" * 150 + ")" * 150, "9" * 9_000, "x" * 2_000_000])
def test_hostile_literals_are_texts(text: str) -> None:
    assert literal_value(text) == literal_value(text)


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(LITERALS, LITERALS)
def test_literals_agree_with_python_equality_up_to_kind(a: object, b: object) -> None:
    assert agree(ScorerKind.LITERAL, repr(a), repr(a))
    if a != b:
        assert not agree(ScorerKind.LITERAL, repr(a), repr(b))


@given(st.sampled_from(list(ScorerKind)), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_agreement_is_symmetric_and_transitive(scorer: ScorerKind, a: str, b: str, c: str) -> None:
    assert agree(scorer, a, b) == agree(scorer, b, a)
    assert not (agree(scorer, a, b) and agree(scorer, b, c)) or agree(scorer, a, c)


def test_exact_ignores_case_and_white_space() -> None:
    assert agree(ScorerKind.EXACT, " New\n York ", "new york")
    assert not agree(ScorerKind.EXACT, "new york", "newyork")


def test_missing_answers_agree_with_nothing() -> None:
    for scorer in ScorerKind:
        assert not agree(scorer, None, None)
        assert not agree(scorer, "1", None)
    assert not agree(ScorerKind.RECORDED, "", "")


def test_scores() -> None:
    assert grade(problem(ScorerKind.NUMERIC, "$1,000"), "1000.0", None, Graders()).reward == 1.0
    assert grade(problem(ScorerKind.EXACT, "yes"), "no", None, Graders()).reward == 0.0
    assert grade(problem(ScorerKind.LITERAL, "['a']"), '["a"]', None, Graders()).reward == 1.0
    assert grade(problem(ScorerKind.RECORDED, scores={"m": 0.25}), "", "m", Graders()).reward == 0.25
    assert grade(problem(ScorerKind.RECORDED, scores={"m": 0.25}), None, None, Graders()).reward == 0.0


@pytest.mark.parametrize(
    ("broken", "answer", "by"),
    [
        (problem(ScorerKind.NUMERIC, "many"), "3", None),
        (problem(ScorerKind.NUMERIC, "many"), None, None),
        (problem(ScorerKind.EXACT, "  "), "", None),
        (problem(ScorerKind.LITERAL, None), "x", None),
        (problem(ScorerKind.RECORDED), "x", "m"),
        (problem(ScorerKind.RECORDED, scores={"m": 0.5}), "x", "other"),
        (problem(ScorerKind.RECORDED, scores={"m": 0.5}), "x", None),
        (problem(ScorerKind.RECORDED, scores={"m": float("nan")}), "x", "m"),
        (problem(ScorerKind.RECORDED, scores={"m": 1.5}), "x", "m"),
    ],
)
def test_a_broken_reference_is_never_a_reward(broken: Problem, answer: str | None, by: str | None) -> None:
    with pytest.raises(Unscorable, match="problem p1 cannot be scored"):
        grade(broken, answer, by, Graders())


def test_references_can_be_checked_beforehand() -> None:
    check_reference(problem(ScorerKind.NUMERIC, "3"))
    with pytest.raises(Unscorable):
        check_reference(problem(ScorerKind.NUMERIC, "three"))
