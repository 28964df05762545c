r"""Equations between plain numbers, found in prose and recomputed.

``12*7 = 84``, ``3/4 + 1/8 = 7/8`` and chains ``a = b = c`` are claims when both sides are plain arithmetic and one of
them computes something. Prose is full of near misses, such as ``2x = 6``, ``7 = 3 (mod 4)`` or ``what if 2 + 2 = 5?``.
So a claim counts as wrong only where nothing around it can change its meaning; anywhere else it counts if it holds and
is passed over if it does not. A decimal may be rounded or cut off: ``1/3 = 0.333`` holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from services.core.protocol.arithmetic import NUMBER, evaluate

LONGEST = 20_000  # characters of a text that are looked at
MOST_WRONG = 5  # wrong claims that are kept

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.;!?])\s+|\n")
_BULLET = re.compile(r"\s*(?:([-*+])|[0-9]{1,3}[.)])\s+")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SIGNS = {
    "\\times": "*", "\\cdot": "*", "\\div": "/", "\\left": "", "\\right": "", "\\,": "", "\\!": "", "{,}": ",",
    "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "\u2212": "-", "\u2013": "-",
}  # fmt: skip
_SIGN = re.compile("|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True)))

_RUN = re.compile(r"[0-9.,+\-*/^()\[\]= \t]+")
_BREAK = re.compile(r"(?<![0-9]),|,(?![0-9]{3}(?![0-9]))|\.(?![0-9])")
_DECIMAL = re.compile(rf"-?\s*{NUMBER}")

# Words and signs that turn an equation into something else: a question, a supposition, another arithmetic.
_HEDGED = re.compile(
    r"[?≈≠≡~]|\\(?:approx|ne|neq|equiv|sim|pmod|bmod|mod)\b|"
    r"\b(?:mod|modulo|base|binary|hex|hexadecimal|octal|remainder|quotient|floor|ceil|round|rounded|rounding|about|"
    r"approx|approximately|roughly|suppose|assume|if|would|wrong|incorrect|incorrectly|mistake|error|not|never|instead|"
    r"false|claim|claims|claimed|rather)\b",
    re.IGNORECASE,
)
# What may stand right before a claim, and right behind it, without changing its meaning.
_BEFORE = re.compile(
    r"(?:[:;.]\s|[:=$]|\\\(|\\\[|"
    r"\b(?:so|thus|then|therefore|hence|since|because|and|have|has|is|get|gets|gives|giving|obtain|that|compute|"
    r"computing|calculate|calculating|now|first|next|finally|becomes|means|us))\s*\Z",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"\s*(?:\Z|[.;](?:\s|\Z)|,(?:\s|\Z)|\\\)|\\\]|\$(?:\s|\Z|[.,;])|"
    r"(?!(?:percent|dozen|hundred|thousand|million|billion|times|plus|minus|over|squared|cubed|root|factorial|cents|"
    r"sqrt|sin|cos|tan|log|exp|with)\b)[a-z]{3})",
    re.IGNORECASE,
)
_NEAR = 24  # characters before a claim that are looked at


@dataclass(frozen=True)
class Claim:
    """A claim that does not hold: as it was written, and what its sides come to."""

    text: str
    left: Fraction
    right: Fraction


@dataclass(frozen=True)
class Recomputed:
    """How many claims hold, and the first that do not."""

    right: int = 0
    wrong: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class _Side:
    """``digits`` are those behind the point of a side that is one decimal; ``computes`` if it is more than a number."""

    text: str
    value: Fraction
    digits: int | None
    computes: bool


def recompute(text: str) -> Recomputed:
    """Recompute every claim of a text."""
    right = 0
    wrong: dict[Claim, None] = {}
    for sentence in _SENTENCE_END.split(_plain(text[:LONGEST])):
        hedged = _HEDGED.search(sentence) is not None
        for claim, certain in _claims(sentence):
            if claim is None:
                right += 1
            elif certain and not hedged:
                wrong.setdefault(claim)
    return Recomputed(right, tuple(wrong)[:MOST_WRONG])


def _plain(text: str) -> str:
    """Return the text without code, LaTeX signs as plain ones. Brackets keep a fraction apart from implied products."""
    bare = _FRACTION.sub(r"[(\1)/(\2)]", _FENCED.sub("\n", text))
    return _SIGN.sub(lambda match: _SIGNS[match.group()], bare)


def _claims(sentence: str) -> Iterator[tuple[Claim | None, bool]]:
    """Yield each claim: None if it holds, and whether nothing around it can change its meaning."""
    bullet = _BULLET.match(sentence)
    line = sentence[bullet.end() :] if bullet else sentence
    for start, end in _equations(line):
        texts = _balanced(line[start:end].split("="))
        sides = [_side(text) for text in texts]
        starts, ends = _clean_start(line, start), _BEHIND.match(line, end) is not None
        for place, (left, right) in enumerate(pairwise(sides)):
            if left is None or right is None or not (left.computes or right.computes):
                continue
            certain = (place > 0 or starts) and (place + 2 < len(sides) or ends)
            # A dash at the beginning may be a bullet or a sign.
            signed = _side(f"-{texts[0]}") if bullet and bullet.group(1) == "-" and not place and not start else None
            holds = _same(left, right) or (signed is not None and _same(signed, right))
            yield (None if holds else Claim(f"{left.text} = {right.text}", left.value, right.value)), certain


def _equations(line: str) -> Iterator[tuple[int, int]]:
    """Yield where arithmetic with an equals sign begins and ends, without blanks around it."""
    for run in _RUN.finditer(line):
        cuts = [*_BREAK.finditer(line, run.start(), run.end())]
        starts = [run.start(), *(cut.end() for cut in cuts)]
        for start, end in zip(starts, [*(cut.start() for cut in cuts), run.end()], strict=True):
            text = line[start:end]
            if "=" in text:
                yield start + len(text) - len(text.lstrip()), end - (len(text) - len(text.rstrip()))


def _clean_start(line: str, start: int) -> bool:
    if not line[:start].strip():
        return True
    return line[start] not in "+-*/^" and _BEFORE.search(line, max(0, start - _NEAR), start) is not None


def _balanced(texts: list[str]) -> list[str]:
    """Return the sides without the parentheses that enclose the whole equation."""
    first, last = texts[0].strip(), texts[-1].strip()
    while first.startswith("(") and first.count("(") > first.count(")"):
        first = first[1:].lstrip()
    while last.endswith(")") and last.count(")") > last.count("("):
        last = last[:-1].rstrip()
    return [first, *texts[1:-1], last]


def _side(text: str) -> _Side | None:
    value = evaluate(text)
    if value is None:
        return None
    trimmed = text.strip()
    alone = _DECIMAL.fullmatch(trimmed) is not None
    digits = len(trimmed.partition(".")[2]) if alone and "." in trimmed else None
    return _Side(trimmed.replace("[", "").replace("]", ""), value, digits, not alone)


def _same(left: _Side, right: _Side) -> bool:
    """Tell whether two sides are equal; a decimal may differ by less than one of its last digit."""
    digits = [side.digits for side in (left, right) if side.digits is not None]
    if not digits:
        return left.value == right.value
    return abs(left.value - right.value) < Fraction(1, 10 ** min(digits))
