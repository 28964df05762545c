"""Exact values of plain arithmetic: numbers, + - * / ^ and parentheses, read by hand and nothing else.

A product has to be written: in ``2(3)`` and ``1 1/2`` nobody can tell which one is meant. So both are no expressions.
"""

from __future__ import annotations

import re
from fractions import Fraction

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"

_LONGEST = 200  # characters
_LARGEST_POWER = 64
_LARGEST_BITS = 4096
_TOKEN = re.compile(rf"\s*(?:({NUMBER})|(\*\*|[-+*/^()\[\]]))")
_BRACKETS = {"(": ")", "[": "]"}


def evaluate(text: str) -> Fraction | None:
    """Return the exact value of an expression, or None when it is none or grows too large."""
    if len(text) > _LONGEST:
        return None
    tokens, end = [], 0
    while match := _TOKEN.match(text, end):
        tokens.append(match.group(1) or match.group(2))
        end = match.end()
    if not tokens or text[end:].strip():
        return None
    try:
        return _Reader(tokens).whole()
    except (ValueError, ZeroDivisionError):
        return None


class _Reader:
    """Recursive descent over tokens: sum, product, sign, power, atom. Raises ValueError where the grammar ends."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0

    def whole(self) -> Fraction:
        value = self._sum()
        if self._tokens[self._at]:
            raise ValueError(self._tokens[self._at])
        return value

    def _take(self, *wanted: str) -> str | None:
        token = self._tokens[self._at]
        if token not in wanted:
            return None
        self._at += 1
        return token

    def _sum(self) -> Fraction:
        value = self._product()
        while operator := self._take("+", "-"):
            other = self._product()
            value = _bounded(value + other if operator == "+" else value - other)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while operator := self._take("*", "/"):
            other = self._signed()
            value = _bounded(value * other if operator == "*" else value / other)
        return value

    def _signed(self) -> Fraction:
        return -self._power() if self._take("-") else self._power()

    def _power(self) -> Fraction:
        base = self._atom()
        if not self._take("^", "**"):
            return base
        exponent = self._signed()
        if exponent.denominator != 1 or abs(exponent) > _LARGEST_POWER:
            raise ValueError(exponent)
        return _bounded(base ** int(exponent))

    def _atom(self) -> Fraction:
        opening = self._take(*_BRACKETS)
        if opening is None:
            token = self._tokens[self._at]
            self._at += 1
            return _bounded(Fraction(token.replace(",", "")))
        value = self._sum()
        if not self._take(_BRACKETS[opening]):
            raise ValueError(opening)
        return value


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LARGEST_BITS:
        raise ValueError("too large")
    return value
