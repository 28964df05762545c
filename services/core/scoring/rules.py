"""The rules of RLPR's short answers: the same text, or the same number within a tolerance; also booleans and lists."""

from __future__ import annotations

import re
from fractions import Fraction

from services.core.scoring.extraction import final_answer
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.latex import key, tidy
from services.core.scoring.rational import parse_close, parse_exact
from services.core.scoring.units import split_unit

_ABSOLUTE, _RELATIVE = Fraction(1, 10**6), Fraction(1, 1000)
_TINY = Fraction(1, 10**5)
_LONGEST = 2_000
_MOST_ITEMS = 200
_TRUE = frozenset({"true", "yes", "correct", "1", "1.0"})
_FALSE = frozenset({"false", "no", "incorrect", "0", "0.0"})
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d)\.?)(?:\s*(?:\\times|\*|x)\s*10\s*\^\s*\{?\s*([-+]?\d{1,3})\s*\}?"
    r"|[eE]([-+]?\d{1,3})(?!\d))?"
)
_FRACTION = re.compile(r"[-+]?\\frac\{[^{}]{1,40}\}\{[^{}]{1,40}\}|(?<![\w.])[-+]?\d+\s*/\s*\d+(?![\w.])")
_MULTIPLE = re.compile(r"\\pi|\\sqrt|\\log|\\ln|\^")


def grade_rules(reference: str, answer: str) -> Grade:
    """Grade by rules: equal text without regard to case, booleans, lists entry by entry, else numbers.

    Numbers are equal within ``max(1e-6, 1e-3 * |reference|)``; of a reference between 0 and 1e-5 only the relative
    tolerance counts. Currency, thousands and a percent sign do not count; a percentage also equals its hundredth. Of an
    equation the right side is taken, of a sentence its only number.
    """
    final = final_answer(answer)
    if final is None:
        return Grade(0.0, Outcome.NO_ANSWER, "no final answer in the reply", "rules")
    same = rules_agree(reference, final)
    return Grade(
        float(same),
        Outcome.CORRECT if same else Outcome.WRONG,
        "" if same else f"answered {final!r:.300}",
        "rules",
    )


def rules_agree(reference: str, answer: str) -> bool:
    """Tell whether a final answer meets the reference by the rules of ``grade_rules``."""
    if max(len(reference), len(answer)) > _LONGEST:
        return False
    wanted, given = tidy(reference), tidy(answer)
    if key(wanted).casefold() == key(given).casefold() or _words(wanted) == _words(given) != "":
        return True
    if wanted.casefold() in ("true", "false", "yes", "no"):
        return _boolean(given) == (wanted.casefold() in _TRUE)
    items = _items(wanted)
    if items is not None and len(items) > 1 and parse_exact(split_unit(wanted).value) is None:
        others = _items(given)
        return others is not None and len(others) == len(items) and all(map(_near, items, others))
    return _near(wanted, given)


def _boolean(text: str) -> bool | None:
    """Return the only truth value a short answer has."""
    values = {word in _TRUE for word in re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.casefold()) if word in _TRUE | _FALSE}
    return values.pop() if len(values) == 1 and not re.search(r"\bnot\b|n't", text.casefold()) else None


def _items(text: str) -> list[str] | None:
    """Return the entries of a flat list in any brackets, or without."""
    plain = re.sub(r"^\\?[\[({]|\\?[\])}]$", "", text.strip()).strip()
    if re.search(r"[\[\](){}]", re.sub(r"\\[a-z]+\{[^{}]*\}(?:\{[^{}]*\})?", "", plain)):
        return None
    parts = [part.strip() for part in re.split(r"[,;]|\s+and\s+", plain) if part.strip()]
    return parts if 0 < len(parts) <= _MOST_ITEMS else None


def _near(wanted: str, given: str) -> bool:
    left, right = split_unit(wanted), split_unit(given)
    reference, value = parse_close(left.value), number(given)
    if reference is None:
        return key(wanted).casefold() == key(given).casefold()
    if value is None:
        return False
    tolerance = _RELATIVE * abs(reference)
    if reference == 0 or abs(reference) >= _TINY:  # of 3e-36 the absolute tolerance would take 0 and 1e-7
        tolerance = max(_ABSOLUTE, tolerance)
    candidates = [value]
    if right.unit == "percent" and left.unit != "percent":
        candidates.append(value / 100)
    if left.unit == "percent" and right.unit != "percent":
        candidates.append(value * 100)
    return any(abs(candidate - reference) <= tolerance for candidate in candidates)


def number(text: str) -> Fraction | None:
    """Return the number a tidied answer states: the answer itself, the right side of its last equation, or its only
    number; None when there is none or no telling which."""
    plain = re.split(r"\\approx|≈", text)[-1]
    parts = [part for part in re.split(r"(?<![<>!])=", plain) if part.strip()]
    for candidate in (plain, *reversed(parts[-1:])):
        exact = parse_close(split_unit(candidate.strip()).value)
        if exact is not None:
            return exact
    tail = parts[-1] if parts else plain
    if _MULTIPLE.search(re.sub(r"10\s*\^", "", tail)):
        return None
    fractions = _FRACTION.findall(tail)
    if len(fractions) == 1:
        return parse_exact(fractions[0])
    found = [match for match in _NUMBER.finditer(tail) if any(character.isdigit() for character in match.group())]
    if len(found) != 1:
        return None
    return parse_exact(re.sub(r"(?<=\d)\s*(?:x|\*)\s*(?=10)", r"\\times ", found[0].group()))


def _words(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s%.+-]", " ", re.sub(r"\\text\{([^{}]*)\}", r"\1", text)).casefold().split()).strip(
        " ."
    )
