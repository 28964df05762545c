"""Equations in prose: recomputed exactly, and called wrong only where nothing around them changes their meaning."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.protocol.arithmetic import evaluate
from services.core.protocol.equations import MOST_WRONG, recompute

DATA = Path(os.environ.get("TRINITY_DATA_DIR") or Path(__file__).parents[3] / "shared" / "data")

HOLD = [
    "12*7 = 84",
    "3/4 + 1/8 = 7/8",
    "x = 3 + 4 = 7",
    "2(x) is not 2 * 3 = 6",
    "1/3 = 0.333",
    "2/3 = 0.67",
    r"\frac{3}{4} + \dfrac{1}{8} = \frac{7}{8}",
    r"$5 \times 4 \div 2 = 10$",
    "1,234 + 1 = 1,235",
    "- 3 + 4 = 7",
    "- 3 + 4 = 1",
    "-2^2 = -4",
    "2**10 = 1024",
    "(since 12*7 = 84)",
    "5 * 12 = 60 dollars",
    "f(2) = 3 + 1 = 4",
]
WRONG = [
    ("so 12*7 = 85.", "12*7 = 85", 84, 85),
    ("x = 3*4 = 13", "3*4 = 13", 12, 13),
    ("Step 3: 4 × 5 = 21", "4 * 5 = 21", 20, 21),
    ("1. 3+4 = 8", "3+4 = 8", 7, 8),
    ("$12*7 = 85$", "12*7 = 85", 84, 85),
    ("(since 12*7 = 85)", "12*7 = 85", 84, 85),
    ("5 * 12 = 62 dollars", "5 * 12 = 62", 60, 62),
    ("We get 3 + 4 = 7 = 2*3", "7 = 2*3", 7, 6),
    ("Is 2+2 = 5? Yes. So 3*3 = 10", "3*3 = 10", 9, 10),
    ("- 3 + 4 = 9", "3 + 4 = 9", 7, 9),
    ("1/2 * 1/3 = 0.25", "1/2 * 1/3 = 0.25", Fraction(1, 6), Fraction(1, 4)),
]
# Nothing of this may be held against anybody.
SILENT = [
    "2x = 6",
    "19 = 3 + 4x",
    "x + 3*4 = 13",
    "$x$ - 3 + 4 = 9",
    "7 + 8 = 3 (mod 12)",
    "what if 2 + 2 = 5?",
    "Suppose that 2 + 2 = 5.",
    "It is not true that 3*4 = 13.",
    "gcd(12, 18) = 6",
    "max(3, 4+1) = 5",
    "1 1/2 = 3/2",
    "2(3+4) = 15",
    "2*3 = 3!",
    "1/2 = 50%",
    "1/2 = 50 percent",
    "10 % 3 = 1",
    "10/3 ≈ 3 = 3",
    "100/7 = 14 remainder 2",
    "4 = 7",
    "Q1 = 7, Q2 = 8",
    "7 = 3 +",
    "1/0 = 3",
    "9^9^9^9 = 3 + 1",
    "2^100000 = 1 + 1",
    "```\nx = 1 + 1 = 3\n```",
    "2024-01-02 = a day",
    "",
]


@pytest.mark.parametrize("text", HOLD)
def test_a_true_equation_holds(text: str) -> None:
    found = recompute(text)
    assert (found.right, found.wrong) == (1, ())


@pytest.mark.parametrize(("text", "written", "left", "right"), WRONG)
def test_a_false_equation_is_named_with_what_its_sides_come_to(
    text: str, written: str, left: Fraction, right: Fraction
) -> None:
    (claim,) = recompute(text).wrong
    assert (claim.text, claim.left, claim.right) == (written, left, right)


@pytest.mark.parametrize("text", SILENT)
def test_what_may_mean_something_else_is_passed_over(text: str) -> None:
    assert recompute(text).wrong == ()


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str) | st.decimals(0, 99, places=2).map(str),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
    max_leaves=6,
)


@given(EXPRESSIONS, EXPRESSIONS)
def test_every_plain_equation_is_judged_by_exact_value(left: str, right: str) -> None:
    values = evaluate(left), evaluate(right)
    found = recompute(f"{left} + 0 = {right} + 0")
    if None in values:
        assert (found.right, found.wrong) == (0, ())
    else:
        assert (found.right, len(found.wrong)) == ((1, 0) if values[0] == values[1] else (0, 1))


@given(EXPRESSIONS)
def test_values_are_those_of_python_with_fractions(text: str) -> None:
    exact = re.sub(r"[0-9.]+", lambda match: f"Fraction('{match.group()}')", text)
    try:
        expected = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        expected = None
    assert evaluate(text) == expected


@given(st.text(st.sampled_from("0123456789.,+-*/^()[]= \n$\\?abx"), max_size=200))
def test_no_text_is_an_error(text: str) -> None:
    assert len(recompute(text).wrong) <= MOST_WRONG


@pytest.mark.parametrize(
    "text", ["1" * 50_000 + "=", "(" * 50_000 + "= 1", "1= " * 20_000, "1," * 20_000 + "=", "-" * 50_000 + "1 = 1"]
)
def test_long_texts_are_read_in_one_go(text: str) -> None:
    assert recompute(text).right == 0


def solutions(name: str) -> Iterator[str]:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    for line in path.read_text().splitlines():
        row = json.loads(line)
        yield re.sub(r"<<.*?>>", "", row["solution"] if "solution" in row else row["answer"])


@pytest.mark.parametrize(
    ("name", "right", "slips"),
    [
        # The slips are the data sets' own: each of these equations is indeed false.
        ("gsm8k/test.jsonl", 2307, {"364 / 4 = 273"}),
        ("gsm8k/train_first500.jsonl", 882, {"4080 + 4080 / 2 = 4000 + 2040", "4000 + 2040 = 6120"}),
        ("math500/test.jsonl", 222, {"(-4)^2 + 4 * 1 * (-1) = 20"}),
    ],
)
def test_written_solutions_are_not_called_wrong(name: str, right: int, slips: set[str]) -> None:
    found = [recompute(text) for text in solutions(name)]
    assert {claim.text for each in found for claim in each.wrong} == slips
    assert sum(each.right for each in found) == right


def recorded(texts: str, graded: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the reasoning of each recorded reply, and whether its final answer was right."""
    folder = DATA / "replay"
    if not (folder / texts).is_file():
        pytest.skip(f"{folder / texts} is not here")
    rows = [json.loads(line) for name in graded for line in (folder / name).read_text().splitlines()]
    correct = {(row["id"], model): one["correct"] for row in rows for model, one in row["responses"].items()}
    for line in (folder / texts).read_text().splitlines():
        row = json.loads(line)
        try:
            text = str(json.loads(row["output"])["reasoning"])
        except (ValueError, KeyError, TypeError):
            text = row["output"].replace("\\n", "\n").replace("\\\\", "\\")
        yield text, correct[row["id"], row["model"]] == 1


@pytest.mark.parametrize(
    ("texts", "graded", "counts"),
    [
        (
            "zeroeval_texts_gsm.jsonl",
            ["zeroeval_gsm_a.jsonl", "zeroeval_gsm_b.jsonl"],
            {True: (359, 1), False: (61, 0)},
        ),
        ("zeroeval_texts_math_l5.jsonl", ["zeroeval_math_l5.jsonl"], {True: (68, 0), False: (352, 8)}),
    ],
)
def test_false_equations_in_recorded_replies(
    texts: str, graded: list[str], counts: dict[bool, tuple[int, int]]
) -> None:
    """Replies with right and with wrong answers, and how many of them state an equation that does not hold."""
    found: dict[bool, list[bool]] = {True: [], False: []}
    for text, right in recorded(texts, graded):
        found[right].append(bool(recompute(text).wrong))
    assert {right: (len(each), sum(each)) for right, each in found.items()} == counts
