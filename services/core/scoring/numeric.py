"""Number answers, compared as exact rationals: 0.5 is 1/2, and 0.333 is not 1/3."""

from __future__ import annotations

import re
from fractions import Fraction

_LONGEST = 400  # a longer "number" is not an answer, and 10**digits must stay cheap
_AFTER_SIGN = re.compile(r"([+-]?)[\s$€£]*([+-]?)(.*?)\s*%?", re.DOTALL)
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_DECIMAL = re.compile(rf"(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{{1,2}})?")
_RATIO = re.compile(rf"({_WHOLE})\s*/\s*({_WHOLE})")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-"})


def parse_number(text: str) -> Fraction | None:
    """Return the number a text is, or None.

    Understood: a sign (also the typographic minus), decimals, thousands separated by commas, ``a/b``, small exponents;
    a currency sign in front, a percent sign behind and a full stop at the end are dropped (so ``50%`` is 50, not 1/2).
    The text must be the number and nothing else.
    """
    if len(text) > _LONGEST:
        return None
    plain = text.strip().translate(_MINUS).rstrip(".").replace("\\$", "$").replace("\\%", "%")
    match = _AFTER_SIGN.fullmatch(plain)
    if match is None:
        return None
    before, after, digits = match.groups()
    if before and after:
        return None
    value = _magnitude(digits)
    return value if value is None or "-" not in (before, after) else -value


def _magnitude(digits: str) -> Fraction | None:
    if _DECIMAL.fullmatch(digits):
        return Fraction(digits.replace(",", ""))
    ratio = _RATIO.fullmatch(digits)
    if ratio is None:
        return None
    numerator, denominator = (int(part.replace(",", "")) for part in ratio.groups())
    return Fraction(numerator, denominator) if denominator else None
