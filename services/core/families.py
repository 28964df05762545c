"""Problem families with a known solution: reasoning-gym data sets whose question text says everything.

Each family names the data set, the settings that keep its questions short, the scorer of its answers, and a reader
that solves a question from its text alone. The simulated pool needs no answer key because of that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from services.core.problem import ScorerKind

INTEGER = r"-?\d{1,30}"
DECIMAL = r"-?\d{1,30}(?:\.\d{1,30})?"


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        name: the reasoning-gym data set of the same name.
        scorer: how answers are judged.
        pattern: matches exactly the questions of the family.
        answer: the answer, from the pattern's groups; ValueError when the question has no unique one.
        method: a sentence that tells how to get there without giving the answer away.
        config: arguments of ``reasoning_gym.create_dataset`` beside size and seed.
    """

    name: str
    scorer: ScorerKind
    pattern: re.Pattern[str]
    answer: Callable[[re.Match[str]], str]
    method: str
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution:
    family: Family
    answer: str


def solve(question: str) -> Solution | None:
    """Return the family and the answer of a generated question, or None when no family knows it."""
    text = question.strip()
    for family in FAMILIES.values():
        match = family.pattern.fullmatch(text)
        if match:
            try:
                return Solution(family, family.answer(match))
            except ValueError:
                return None
    return None


def _signed_sum(expression: str) -> Decimal:
    terms = re.findall(rf"(?:^|([+-]) )({DECIMAL})", expression)
    return sum((Decimal(number) * (-1 if sign == "-" else 1) for sign, number in terms), Decimal(0))


def _sum(match: re.Match[str]) -> str:
    return str(_signed_sum(match["expression"]))


def _product(match: re.Match[str]) -> str:
    return str(math.prod(int(factor) for factor in match["expression"].split(" * ")))


def _count_letter(match: re.Match[str]) -> str:
    return str(match["text"].lower().count(match["letter"]))


def _sorted_numbers(match: re.Match[str]) -> str:
    numbers = sorted(map(float, match["numbers"].split(", ")), reverse=match["direction"] == "descending")
    return str([str(number) for number in numbers])


def _filtered_numbers(match: re.Match[str]) -> str:
    numbers = re.findall(rf"'({DECIMAL})'", match["numbers"])
    limit = Decimal(match["limit"])
    keep = match["action"] == "Keep"
    larger = match["side"] == "larger"
    return str([n for n in numbers if (Decimal(n) > limit if larger else Decimal(n) < limit) == keep])


def _reversed_word(match: re.Match[str]) -> str:
    return match["word"][::-1]


def _bits(match: re.Match[str]) -> str:
    return str(int(match["number"]).bit_count())


def _divisor(match: re.Match[str]) -> str:
    return str(math.gcd(*map(int, match["numbers"].split(", "))))


def _multiple(match: re.Match[str]) -> str:
    return str(math.lcm(*map(int, match["numbers"].split(", "))))


def _lowest_terms(match: re.Match[str]) -> str:
    numerator, denominator = int(match["numerator"]), int(match["denominator"])
    divisor = math.gcd(numerator, denominator)
    if denominator == 0:
        raise ValueError("a fraction with denominator 0 has no lowest terms")
    return f"{numerator // divisor}/{denominator // divisor}"


def _linear_root(match: re.Match[str]) -> str:
    slope = int(match["slope"] or 1) * (-1 if match["before"] and match["sign"] == "-" else 1)
    constant = int(match["before"] or 0) or int((match["after"] or "0").replace(" ", ""))
    root, remainder = divmod(int(match["right"]) - constant, slope)  # the patterns admit no slope 0
    if remainder:
        raise ValueError("the root is not a whole number")
    return str(root)


def _family(
    name: str,
    scorer: ScorerKind,
    pattern: str,
    answer: Callable[[re.Match[str]], str],
    method: str,
    **config: Any,
) -> Family:
    return Family(name, scorer, re.compile(pattern), answer, method, MappingProxyType(config))


_SUM = r"State the final answer to the following arithmetic problem: (?P<expression>{n}(?: [+-] {n}){{0,40}}) ="
_SORT_FORMAT = (
    r"\nPlease follow the instruction below:\n## 1\. Let all your answers be a list of numbers\.[^\n]*"
    r"\n## 2\. Convert all numbers in the square brackets as strings\.[^\n]*"
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            _family(
                "chain_sum",
                ScorerKind.NUMERIC,
                _SUM.format(n=INTEGER),
                _sum,
                "Work from left to right and keep the running total; mind each minus sign.",
                min_terms=2,
                max_terms=4,
                max_digits=3,
            ),
            _family(
                "letter_counting",
                ScorerKind.NUMERIC,
                r'How many times does the letter "(?P<letter>[^"])" appear in the text: "(?P<text>[^"]{0,2000})"\?',
                _count_letter,
                "Go through the words one at a time, count the letter in each, upper case included, and add up.",
                min_words=3,
                max_words=7,
            ),
            _family(
                "number_sorting",
                ScorerKind.LITERAL,
                rf"Sort these numbers in (?P<direction>ascending|descending) order: "
                rf"(?P<numbers>{DECIMAL}(?:, {DECIMAL}){{0,40}}){_SORT_FORMAT}",
                _sorted_numbers,
                "Order the negative numbers by size first, then the positive ones, and keep every decimal as written.",
                min_numbers=3,
                max_numbers=5,
                max_decimals=1,
            ),
            _family(
                "spell_backward",
                ScorerKind.EXACT,
                r"Spell this word backward \(example: sun -> nus\): (?P<word>\S{1,100})",
                _reversed_word,
                "Write the letters down one by one, then read them from the last to the first.",
            ),
            _family(
                "count_bits",
                ScorerKind.NUMERIC,
                r"How many 1 bits are there in the binary representation of the number (?P<number>\d{1,30})\?",
                _bits,
                "Halve the number again and again and count how often the remainder is one.",
                max_n=65535,
            ),
            _family(
                "products",
                ScorerKind.NUMERIC,
                rf"Solve the following multiplication: (?P<expression>{INTEGER}(?: \* {INTEGER}){{1,9}})\. "
                r"Give only the result as your final answer\.",
                _product,
                "Split the second factor into hundreds, tens and ones, multiply apart and add.",
                max_digits=3,
            ),
            _family(
                "gcd",
                ScorerKind.NUMERIC,
                r"Find the Greatest Common Divisor \(GCD\) of these numbers: "
                r"(?P<numbers>\d{1,30}(?:, \d{1,30}){1,9})\. Give only the GCD as your final answer\.",
                _divisor,
                "Replace the larger number by the remainder of dividing it by the smaller until nothing remains.",
            ),
            _family(
                "lcm",
                ScorerKind.NUMERIC,
                r"Find the Least Common Multiple \(LCM\) of these numbers: (?P<numbers>\d{1,30}(?:, \d{1,30}){1,9})",
                _multiple,
                "Multiply the numbers and divide by what they have in common.",
            ),
            _family(
                "number_filtering",
                ScorerKind.LITERAL,
                rf"(?P<action>Keep|Remove) all numbers (?P<side>larger|smaller) than (?P<limit>{DECIMAL}) "
                rf"in this list: (?P<numbers>\['{DECIMAL}'(?:, '{DECIMAL}'){{0,40}}\])\n"
                r"Return the new list in the same format\.",
                _filtered_numbers,
                "Compare each number with the limit on its own and copy those that stay exactly as written.",
                max_numbers=6,
                max_decimals=2,
            ),
            _family(
                "decimal_chain_sum",
                ScorerKind.NUMERIC,
                _SUM.format(n=DECIMAL),
                _sum,
                "Align the decimal points, then work from left to right.",
                max_terms=4,
                max_digits=2,
                max_decimal_places=2,
            ),
            _family(
                "fraction_simplification",
                ScorerKind.EXACT,
                r"Simplify the fraction (?P<numerator>\d{1,30})/(?P<denominator>\d{1,30}) to its lowest terms\. "
                r"Give only the simplified fraction as your final answer\.",
                _lowest_terms,
                "Find the greatest number that divides both parts and divide it out.",
                styles=("plain",),
            ),
            _family(
                "simple_equations",
                ScorerKind.NUMERIC,
                r"(?:Solve for (?P<v1>[a-z]):|Find the value of (?P<v2>[a-z]) in the equation:"
                r"|Determine the value of (?P<v3>[a-z]) that satisfies:) "
                r"(?:(?P<before>-?\d{1,30}) (?P<sign>[+-]) )?(?:(?P<slope>-?[1-9]\d{0,29})\*)?[a-z]"
                r"(?P<after> [+-] \d{1,30})? = (?P<right>-?\d{1,30})",
                _linear_root,
                "Bring the constant to the other side, then divide by the factor of the unknown.",
                operators=("+", "*"),
                operators_weights=[0.6, 0.4],
            ),
        )
    }
)
