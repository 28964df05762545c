"""Python-literal answers: the same value of the same kind."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from fractions import Fraction

_LONGEST = 10_000

# An unknown escape only warns, and warnings may be errors: whether a text is a literal must not depend on that.
_ODD_ESCAPE = re.compile(r"\\(?:\\|[\n'\"abfnrtvxuUN0-7])|(\\)")


def literal_value(text: str) -> Hashable:
    """Return a value that is equal for equal literals; a text that is no literal stands for itself as a string.

    ``1`` equals ``1.0``, but not ``True`` nor ``'1'``; a list never equals a tuple; sets and dictionaries ignore order.
    ``abc`` equals ``'abc'``. Nothing is evaluated beyond literals, and longer texts than 10,000 characters stay texts.
    """
    stripped = text.strip()
    if len(stripped) > _LONGEST or any(match.group(1) for match in _ODD_ESCAPE.finditer(stripped)):
        return _canonical(stripped)
    try:
        return _canonical(ast.literal_eval(stripped))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return _canonical(stripped)


def _canonical(value: object) -> Hashable:
    """Return the value with its kind, so that Python's ``True == 1`` cannot count."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return ("number", _exact(value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(_canonical(part) for part in value))
    if isinstance(value, set):
        return ("set", frozenset(_canonical(part) for part in value))
    if isinstance(value, dict):
        return ("dict", frozenset((_canonical(key), _canonical(part)) for key, part in value.items()))
    return (type(value).__name__, repr(value))


def _exact(value: int | float) -> Hashable:
    """Return the rational a number is; a literal too large for a float is infinite and stays one."""
    try:
        return Fraction(value)
    except OverflowError:
        return repr(value)
