"""Whether two LaTeX expressions are the same object: exact values first, math-verify for what is no plain expression.

Runs in the child alone, under a limit of CPU time; nothing here limits itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy, normalize_latex
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from sympy import Eq, Expr, Float, I, Rational, Symbol

_NORMAL = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_KEEP_CASE = ConversionConfig(lowercase_symbols=False)  # the default takes R for r
_DIGITS = 60
_SAME = Rational(1, 10**45)
# Irrational-looking values far from each other, so that no two different expressions agree on all of them by accident.
_POINTS = tuple(
    Rational(n, d) for n, d in ((1237, 991), (2731, 877), (433, 1009), (3571, 613), (911, 1193), (1613, 709))
)
_ROUNDED_DIGITS = 3


def compare(reference: str, answer: str) -> bool | None:
    """Return whether the two are the same object, None when one of them cannot be read as mathematics.

    Constants are compared by 60 digits of their values, expressions with variables at several points, equations
    up to a constant factor, all else by ``math_verify.verify`` with the reference first. Decimals are exact; only a
    reference that is itself a decimal of at least three significant digits equals a closed form that rounds to it.
    """
    gold, given = _read(reference), _read(answer)
    if gold is None or given is None:
        return None
    exact_gold, exact_given = _exact(gold), _exact(given)
    if isinstance(exact_gold, Expr) and isinstance(exact_given, Expr):
        if isinstance(gold, Float) and not given.atoms(Float) and not given.free_symbols:
            return _rounds_to(exact_given, reference)
        decided = _by_value(exact_gold, exact_given)
        if decided is not None:
            return decided
    if isinstance(exact_gold, Eq) and isinstance(exact_given, Eq) and _proportional(exact_gold, exact_given):
        return True
    return bool(verify([exact_gold], [exact_given], timeout_seconds=None, allow_set_relation_comp=True))


def _read(latex: str) -> Any:
    try:
        normal = normalize_latex(latex, config=_NORMAL)
        return latex2sympy(normal, convert_degrees=False, normalization_config=None, conversion_config=_KEEP_CASE)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 -- the parser raises whatever it stumbles over
        return None


def _exact(expression: Any) -> Any:
    """Return the expression with every decimal as the rational it was written as, and ``i`` as the imaginary unit."""
    try:
        known = {number: Rational(str(number)) for number in expression.atoms(Float)}
        known |= {symbol: I for symbol in expression.atoms(Symbol) if symbol.name == "i"}
        return expression.xreplace(known).doit()
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return expression


def _rounds_to(value: Expr, reference: str) -> bool:
    decimals = reference.strip().lstrip("+-")
    places = len(decimals.partition(".")[2])
    wanted = Rational(reference.strip())
    number = _number(value, {})
    if number is None:
        return False
    if len(decimals.replace(".", "").lstrip("0")) < _ROUNDED_DIGITS:
        return _close(number, wanted)
    return bool(abs(number - wanted) <= Rational(1, 2 * 10**places))


def _by_value(gold: Expr, given: Expr) -> bool | None:
    """Decide by values; None where a side has none, such as an unknown function or infinity."""
    names = sorted({str(symbol) for side in (gold, given) for symbol in side.free_symbols})
    met, real = 0, not (gold.has(I) or given.has(I))
    for values in _assignments(names):
        left, right = _number(gold, values, real), _number(given, values, real)
        if left is None or right is None:
            continue
        if not _close(left, right):
            return False
        met += 1
        if not names:
            return True
    return True if met > 2 else None


def _assignments(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield values for the variables: all positive, then one of them negative at a time.

    Two negative at once would tell the root of a product from the product of the roots.
    """
    for shift in range(3):
        yield {name: _POINTS[(index + shift) % len(_POINTS)] + index for index, name in enumerate(names)}
    for flipped in names:
        yield {
            name: (_POINTS[index % len(_POINTS)] + index) * (-1 if name == flipped else 1)
            for index, name in enumerate(names)
        }


def _number(expression: Expr, values: dict[str, Any], real_only: bool = True) -> Any:
    """Return the value at a point; None when there is none, or it is not real though all that it is made of is."""
    try:
        placed = expression.xreplace({symbol: values[str(symbol)] for symbol in expression.free_symbols})
        number = placed.evalf(_DIGITS)
        if not number.is_number or not number.is_finite or number.free_symbols:
            return None
        real, imaginary = number.as_real_imag()
        if not (real.is_Number and imaginary.is_Number) or (values and real_only and imaginary != 0):
            return None
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError):
        return None
    return number


def _close(left: Any, right: Any) -> bool:
    return bool(abs(left - right).evalf(_DIGITS) <= _SAME * max(abs(left), abs(right)).evalf(_DIGITS))


def _proportional(gold: Eq, given: Eq) -> bool:
    """Tell whether two equations say the same up to a constant factor, such as ``x + y = 2`` and ``2x + 2y = 4``."""
    left, right = gold.lhs - gold.rhs, given.lhs - given.rhs
    names = sorted({str(symbol) for side in (left, right) for symbol in side.free_symbols})
    factors = []
    for values in _assignments(names):
        top, bottom = _number(left, values), _number(right, values)
        if top is not None and bottom is not None and bottom != 0 and top != 0:
            factors.append(top / bottom)
    return len(factors) > 2 and all(_close(factors[0], other) for other in factors[1:])
