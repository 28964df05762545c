"""Numbers written with their base, such as ``4210_{7}``; no symbolic grader keeps the base."""

from __future__ import annotations

import re

from services.core.scoring.latex import key
from services.core.scoring.rational import parse_exact

_BASED = re.compile(r"([-+]?)\s*([0-9A-F]+)_(?:\{?(?:\\text\{)?\s*([0-9]{1,2}|[a-z]+)\s*\}?\}?)", re.IGNORECASE)
_SPELLED = re.compile(r"([-+]?[0-9A-F]+)(?:\\text\{)?\(?(?:in)?base-?([0-9]{1,2}|[a-z]+)\)?\}?", re.IGNORECASE)
_BASE_NAMES = {
    name: str(number)
    for number, name in enumerate(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], start=2
    )
}


def same_based(wanted: str, given: str) -> bool | None:
    """Compare numbers with their base; an answer may leave the reference's base out. None when no base is written."""
    left, right = _based(wanted), _based(given)
    if left is None and right is None:
        return None
    if left is not None and right is not None:
        return left == right
    digits, base = left or right or ("", "")
    other = key(given if left is not None else wanted).replace(",", "").upper()
    if left is not None:
        return other.lstrip("+") == digits
    value = parse_exact(other)
    return value is not None and _worth(digits, base) == value


def _based(text: str) -> tuple[str, str] | None:
    plain = _SPELLED.sub(r"\1_{\2}", text.replace(" ", "").replace(",", ""))
    match = _BASED.fullmatch(plain)
    if match is None:
        return None
    base = match.group(3).lower()
    if not match.group(2)[0].isdigit() and base not in ("11", "12", "16"):
        return None  # a variable with an index
    return match.group(1).replace("+", "") + (match.group(2).lstrip("0") or "0").upper(), _BASE_NAMES.get(base, base)


def _worth(digits: str, base: str) -> int | None:
    try:
        return int(digits, int(base)) if len(digits) <= 100 else None
    except ValueError:
        return None
