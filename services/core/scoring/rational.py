"""Exact values of numbers: fractions, decimals, mixed numbers, powers, thousands; bounded, and never by evaluation."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_LONGEST = 400
_MOST_BITS = 8192
_HOPELESS_BITS = 10**6
_HOPELESS_FACTORIAL = 10**4
_DEEPEST = 20
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d*)?|\.\d+)(?P<repeat>\\overline\{\d{1,20}\})?"
    r"|(?P<frac>\\frac)|(?P<times>\\times|\\cdot|\*)|(?P<over>\\div|/)|(?P<sign>[-+])|(?P<power>\^)|(?P<open>[({])"
    r"|(?P<close>[)}])|(?P<factorial>!)|(?P<pi>\\pi(?![a-zA-Z]))|(?P<root>\\sqrt))"
)
_EXPONENT = re.compile(r"(?<=\d)[eE](?=[-+]?\d{1,3}(?!\d))")
_PI = Fraction(31415926535897932384626433832795028841971693993751, 10**49)
_ROOT_SCALE = 10**40
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+(?:\.\d+)?")


class _NoNumber(Exception):
    """The text is something else than a number, or too large a one."""


def parse_exact(text: str) -> Fraction | None:
    r"""Return the rational number a tidied expression is, or None.

    Understood: decimals (also repeating ones), thousands in groups, ``\frac`` and ``/``, mixed numbers, sums, products,
    powers with whole exponents, factorials, scientific notation. None for anything longer than 400 characters or larger
    than 8,192 bits: it then has to be the same text, or somebody else's question.
    """
    return _parse(text, close=False)


def parse_close(text: str) -> Fraction | None:
    """Return what ``parse_exact`` returns, and for closed forms with pi and square roots a rational within 1e-30."""
    return _parse(text, close=True)


def out_of_reach(text: str) -> bool:
    """Tell whether a tidied text is arithmetic with numbers too large for anybody, such as ``9^{9^{9^9}}``."""
    try:
        _evaluate(text[:_LONGEST], close=True)
    except _TooLarge:
        return True
    except (_NoNumber, ZeroDivisionError):
        return False
    return False


def _parse(text: str, *, close: bool) -> Fraction | None:
    if len(text) > _LONGEST or not (close or any(character.isdigit() for character in text)):
        return None
    try:
        return _evaluate(text, close=close)
    except (_NoNumber, ZeroDivisionError):
        return None


def _evaluate(text: str, *, close: bool) -> Fraction:
    plain = text.replace(" ", "") if _SPACED.fullmatch(text.lstrip("+- ")) else text
    plain = _EXPONENT.sub(r"*10^", plain)
    plain = re.sub(r"(?<=10)\^([-+]?\d+)", r"^{\1}", plain)
    reader = _Reader(plain, close=close)
    value = reader.sum(0)
    if reader.kind is not None:
        raise _NoNumber
    return value


class _Large(_NoNumber):
    """The text is a number, but larger than is computed here."""


class _TooLarge(_NoNumber):
    """The text is a number, but on the way to it stands one that no machine should write out."""


class _Reader:
    """Recursive descent over the tokens of a sum; each step is bounded before it is computed."""

    def __init__(self, text: str, *, close: bool) -> None:
        self._close = close
        self._tokens: list[tuple[str, str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NoNumber
            kind = "number" if match.group("number") else str(match.lastgroup)
            self._tokens.append((kind, match.group(kind), match.group("repeat") or ""))
            position = match.end()
        self._at = 0

    @property
    def kind(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def sum(self, depth: int) -> Fraction:
        if depth > _DEEPEST:
            raise _NoNumber
        value = self._product(depth)
        while self.kind == "sign":
            minus = self._take() == "-"
            term = self._product(depth)
            value = _bounded(value - term if minus else value + term)
        return value

    def _product(self, depth: int) -> Fraction:
        if self.kind == "sign":
            return -self._product(depth + 1) if self._take() == "-" else self._product(depth + 1)
        if depth > 2 * _DEEPEST:
            raise _NoNumber
        value = self._power(depth)
        while self.kind in ("times", "over", "open", "frac", "pi", "root"):
            if self.kind in ("times", "over"):
                over = self._take() not in ("\\times", "\\cdot", "*")
                factor = -self._power(depth) if self.kind == "sign" and self._take() == "-" else self._power(depth)
                value = _bounded(value / factor if over else value * factor)
            else:
                value = _bounded(value * self._power(depth))
        return value

    def _power(self, depth: int) -> Fraction:
        base = self._atom(depth)
        while self.kind == "factorial":
            self._take()
            base = _factorial(base)
        if self.kind != "power":
            return base
        self._take()
        try:
            exponent = -self._atom(depth) if self.kind == "sign" and self._take() == "-" else self._atom(depth)
        except _Large as error:
            raise _TooLarge from error
        return _raise(base, exponent)

    def _atom(self, depth: int) -> Fraction:
        if self.kind == "number":
            return self._number(depth)
        if self.kind == "frac":
            self._take()
            return _bounded(self._group(depth) / self._group(depth))
        if self.kind in ("pi", "root"):
            return self._irrational(depth)
        return self._group(depth)

    def _irrational(self, depth: int) -> Fraction:
        if not self._close:
            raise _NoNumber
        if self._take() == "\\pi":
            return _PI
        inner = self._group(depth)
        if inner < 0:
            raise _NoNumber
        return Fraction(math.isqrt(inner.numerator * _ROOT_SCALE**2 // inner.denominator), _ROOT_SCALE)

    def _number(self, depth: int) -> Fraction:
        _, digits, repeat = self._tokens[self._at]
        self._at += 1
        value = Fraction(digits.replace(",", ""))
        if repeat:
            places = len(digits.partition(".")[2])
            period = repeat[len("\\overline{") : -1]
            value += Fraction(int(period), 10**places * (10 ** len(period) - 1))
        if digits.replace(",", "").isdigit() and not repeat and self._mixed():
            value += self._atom(depth)  # 1\frac{4}{5} is 9/5
        elif digits.replace(",", "").isdigit() and not repeat and self._plain_mixed():
            value += Fraction(int(self._take()), int(self._take(skip=1)))  # 1 4/5
        return value

    def _mixed(self) -> bool:
        shape = [token[0] for token in self._tokens[self._at : self._at + 7]]
        return shape == ["frac", "open", "number", "close", "open", "number", "close"] and not any(
            "." in token[1] for token in self._tokens[self._at : self._at + 7]
        )

    def _plain_mixed(self) -> bool:
        following = self._tokens[self._at : self._at + 3]
        shape = [token[0] for token in following]
        return shape == ["number", "over", "number"] and all(token[1].isdigit() for token in following[::2])

    def _group(self, depth: int) -> Fraction:
        if self.kind != "open":
            raise _NoNumber
        closing = {"(": ")", "{": "}"}[self._take()]
        value = self.sum(depth + 1)
        if self.kind != "close" or self._take() != closing:
            raise _NoNumber
        return value

    def _take(self, skip: int = 0) -> str:
        self._at += skip
        if self._at >= len(self._tokens):
            raise _NoNumber
        self._at += 1
        return self._tokens[self._at - 1][1]


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise _Large
    return value


def _raise(base: Fraction, exponent: Fraction) -> Fraction:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > _HOPELESS_BITS and bits > 1:
        raise _TooLarge
    if exponent.denominator != 1:
        raise _NoNumber
    if abs(exponent) > _MOST_BITS or bits * abs(exponent) > _MOST_BITS:
        raise _Large
    return base ** int(exponent)  # a whole exponent keeps the power of a Fraction exact


def _factorial(value: Fraction) -> Fraction:
    if value > _HOPELESS_FACTORIAL:
        raise _TooLarge
    if value.denominator != 1 or not 0 <= value <= 300:
        raise _NoNumber
    product = 1
    for factor in range(2, int(value) + 1):
        product *= factor
    return Fraction(product)
