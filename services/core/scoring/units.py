"""Units and words behind a number. A missing unit is forgiven, another unit is not, and nothing is converted."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMES: dict[str, str] = {
    "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "inch": "in inch inches",
    "foot": "ft foot feet",
    "yard": "yd yard yards",
    "mile": "mi mile miles",
    "second": "s sec secs second seconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "yr yrs year years",
    "gram": "g gram grams",
    "kg": "kg kilogram kilograms",
    "pound": "lb lbs pound pounds",
    "ounce": "oz ounce ounces",
    "liter": "L l liter liters litre litres",
    "ml": "ml mL milliliter milliliters",
    "gallon": "gal gallon gallons",
    "dollar": "dollar dollars usd USD $",
    "cent": "cent cents",
    "euro": "euro euros €",
    "pound sterling": "£",
    "degree": "degree degrees deg",
    "radian": "rad radian radians",
    "unit": "unit units",
    "mph": "mph",
    "percent": "percent percents percentage",
    "volt": "V volt volts",
    "ampere": "A ampere amperes amps",
    "newton": "N newton newtons",
    "joule": "J joule joules",
    "watt": "W watt watts",
    "pascal": "Pa pascal pascals",
    "hertz": "Hz hertz",
}  # fmt: skip
_UNITS = {spelling: unit for unit, spellings in _NAMES.items() for spelling in spellings.split()}
_BARE = {spelling for spelling in _UNITS if len(spelling) > 1 and spelling not in ("in", "mi", "min", "deg", "rad")}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_POWERS_BEFORE = ("square", "sq", "cubic", "cu")
_MEANINGS = (
    "or and more less than to not times over plus minus divided by half halves third thirds million millions",
    "thousand thousands billion hundred hundreds dozen base mod factorial least most about approximately if when for",
    "where is are no none all infinity infinite",
)
_MEANING = frozenset(" ".join(_MEANINGS).split())
_CHANGES = (
    "or less more than not times over plus minus half third quarter million thousand hundred billion dozen base mod",
    "least most about approximately if when none infinity between from square root factorial",
)
_CHANGING = frozenset(" ".join(_CHANGES).split())
_NUMBER = re.compile(r"-?[$€£]?\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?")
_TEXT_TAIL = re.compile(r"(.*?)\s*((?:(?:\\cdot|/|per)?\s*\\text\{[^{}]*\}\s*(?:\^\s*\{?\d\}?)?\s*)+)", re.DOTALL)
_WORD_TAIL = re.compile(r"(.*?[0-9)}!%])\s*((?:(?:/\s*)?[A-Za-z]+\.?\s*(?:\^\s*\{?[23]\}?)?[\s-]*){1,6})", re.DOTALL)
_MONEY = re.compile(r"([-+]?)\s*(?:\\text\{)?([$€£])\}?\s*([-+]?)\s*(.*)", re.DOTALL)
_DEGREES = re.compile(r"(.*?)\s*\^\\circ\s*([CF]?)", re.DOTALL)
_PERCENT = re.compile(r"(.*?)\s*\\?%", re.DOTALL)
_PIECE = re.compile(r"/|per(?![a-z])|[A-Za-z$€£]+|\^?\s*\{?(\d)\}?")


@dataclass(frozen=True)
class Quantity:
    """A value with its unit.

    Attributes:
        value: what is left of the text.
        unit: ``""`` when there is none; ``"?"`` when words follow that are no unit of the table, as in ``5 apples``.
    """

    value: str
    unit: str = ""


def split_unit(text: str) -> Quantity:
    """Return a tidied expression apart from the unit at its end (or the currency in front)."""
    for read in (_percent, _degrees, _money, _in_text, _in_words):
        found = read(text)
        if found is not None and found.value:
            return found
    return Quantity(text)


def units_agree(reference: str, answer: str) -> bool:
    """Tell whether an answer with one unit may stand for a reference with another; a missing one may."""
    return (
        reference == answer
        or not reference
        or not answer
        or "?" in (reference, answer)
        or "unit"
        in (
            reference.split("^")[0],
            answer.split("^")[0],
        )
    )


def number_in_sentence(text: str) -> str | None:
    """Return the only number of a plain sentence, such as ``Sally has 9 books``, with what belongs to it; else None.

    None as well when a word changes the number, as in ``more than 9``.
    """
    found = list(_NUMBER.finditer(text))
    plain = re.findall(r"[A-Za-z]+", text)
    if len(found) != 1 or len(plain) < 2 or re.search(r"[\\=+*^_{}<>|:]", text):
        return None
    if any(word.lower() in _CHANGING for word in plain):
        return None
    return found[0].group().replace("$", "")


def _percent(text: str) -> Quantity | None:
    match = _PERCENT.fullmatch(text)
    return Quantity(match.group(1), "percent") if match else None


def _degrees(text: str) -> Quantity | None:
    match = _DEGREES.fullmatch(text)
    return Quantity(match.group(1), "degree" + match.group(2)) if match else None


def _money(text: str) -> Quantity | None:
    match = _MONEY.fullmatch(text)
    if match is None or (match.group(1) and match.group(3)):
        return None
    rest = split_unit(match.group(4))
    value = rest.value if rest.unit in ("dollar", "?", "") else match.group(4)
    return Quantity(match.group(1) + match.group(3) + value, _UNITS[match.group(2)])


def _in_text(text: str) -> Quantity | None:
    match = _TEXT_TAIL.fullmatch(text)
    if match is None or not match.group(1).strip():
        return None
    words = re.sub(r"\\text\{([^{}]*)\}|\\cdot", r" \1 ", match.group(2))
    return _with_words(match.group(1).strip(), words, _UNITS.keys())


def _in_words(text: str) -> Quantity | None:
    match = _WORD_TAIL.fullmatch(text)
    if match is None or "\\" in match.group(2):
        return None
    alone = re.fullmatch(r"[-+]?[\d.,]+", match.group(1)) is not None
    return _with_words(match.group(1).strip(), match.group(2), _UNITS.keys() if alone else _BARE)


def _with_words(value: str, words: str, known: object) -> Quantity | None:
    plain = re.findall(r"[A-Za-z$€£]+", words)
    unit = _unit(words, known)
    if unit is not None:
        return Quantity(value, unit)
    if any(word.lower() in _MEANING for word in plain) or not plain or not all(len(word) > 1 for word in plain):
        return None
    return Quantity(value, "?") if _is_number(value) else None


def _unit(words: str, known: object) -> str | None:
    """Return the canonical unit, such as ``cm^2`` or ``mile/hour``, or None when a word is not one."""
    parts: list[str] = []
    pending = ""
    for match in _PIECE.finditer(words):
        piece = match.group()
        if piece in ("/", "per"):
            parts.append("/")
        elif match.group(1) or piece.lower() in _POWERS:
            power = match.group(1) or _POWERS[piece.lower()]
            if parts and parts[-1] != "/" and "^" not in parts[-1] and piece.lower() not in _POWERS_BEFORE:
                parts[-1] += "^" + power
            else:
                pending = "^" + power
        else:
            spelling = piece if piece in _UNITS else piece.lower()
            if spelling not in _UNITS or spelling not in known:  # type: ignore[operator]
                return None
            parts.append(_UNITS[spelling] + pending)
            pending = ""
    return "".join(parts).replace("mile/hour", "mph") if parts else None


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,/ ]*\d[\d.,/ ]*|[-+]?\d*\\frac\{\d+\}\{\d+\}", value.strip()) is not None
