"""Inequalities in one variable, read as the intervals they describe."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.core.scoring.latex import split_outside
from services.core.scoring.rational import parse_exact

_OPERATOR = re.compile(r"<|>|\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z])")
_VARIABLE = re.compile(r"(?:[A-Za-z]|\\(?:theta|alpha|beta|gamma|lambda|mu|phi|omega)|[a-zA-Z]\([a-z]\))(?:_\{?\w\}?)?")
_OR = re.compile(r"\\text\{\s*,?\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\cup(?![a-zA-Z])|\\(?:lor|vee)(?![a-zA-Z])")
_AND = re.compile(r"\\text\{\s*,?\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge|cap)(?![a-zA-Z])|[,;&]")
_DISTANCE = re.compile(
    r"\|\s*([a-zA-Z])\s*(?:([-+])\s*([^|<>]{1,40}))?\|\s*(<|>|\\le|\\ge)(?![a-zA-Z])\s*([^|<>,]{1,80})"
)
_LOW, _HIGH = r"-\infty", r"\infty"


@dataclass(frozen=True)
class Piece:
    """An interval: its ends as texts, and whether they belong to it."""

    left: str
    left_closed: bool
    right: str
    right_closed: bool


def read_inequalities(text: str) -> tuple[Piece, ...] | None:
    r"""Return the intervals of a tidied statement such as ``x<2 \text{ or } x>3`` or ``-2 \le x \le 7``, or None.

    "And" and a comma between a lower and an upper bound mean both, unless no number is within both: then "x < 2 and
    x > 3" means either, as people write it.
    """
    if not _OPERATOR.search(text):
        return None
    found: list[Piece] = []
    variables: set[str] = set()
    for alternative in split_outside(text, _OR):
        clauses = [_clause(part.strip(" ,")) for part in split_outside(alternative.strip(" ,"), _AND)]
        known = [clause for clause in clauses if clause is not None]
        if len(known) < len(clauses):
            return None
        variables |= {variable for variable, _ in known}
        found.extend(_together([piece for _, pieces in known for piece in pieces]))
    return tuple(found) if len(variables) == 1 else None


def _clause(text: str) -> tuple[str, tuple[Piece, ...]] | None:
    inside = _within(text)
    if inside is not None:
        return inside
    operators = [match.group() for match in _OPERATOR.finditer(text)]
    terms = [term.strip() for term in _OPERATOR.split(text)]
    if not all(terms):
        return None
    if len(operators) == 1:
        return _half_line(terms[0], operators[0], terms[1])
    if len(operators) != 2 or not _VARIABLE.fullmatch(terms[1]) or r"\ne" in operators:
        return None
    rising = [operator in ("<", r"\le") for operator in operators]
    if rising[0] != rising[1]:
        return None
    first, second = (operator in (r"\le", r"\ge") for operator in operators)
    if rising[0]:
        return terms[1], (Piece(terms[0], first, terms[2], second),)
    return terms[1], (Piece(terms[2], second, terms[0], first),)


def _within(text: str) -> tuple[str, tuple[Piece, ...]] | None:
    """Return the interval that ``|x - 2| < 3`` describes, or the two that ``|x| > 3`` does."""
    match = _DISTANCE.fullmatch(text)
    if match is None:
        return None
    variable, sign, centre, operator, radius = (part.strip() if part else "" for part in match.groups())
    closed = operator in (r"\le", r"\ge")
    middle = "" if not centre else centre if sign == "-" else f"-({centre})"
    left, right = f"{middle}-({radius})", f"{middle}+({radius})" if middle else radius
    if operator in ("<", r"\le"):
        return variable, (Piece(left, closed, right, closed),)
    return variable, (Piece(_LOW, False, left, closed), Piece(right, closed, _HIGH, False))


def _half_line(left: str, operator: str, right: str) -> tuple[str, tuple[Piece, ...]] | None:
    mirrored = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}
    if not _VARIABLE.fullmatch(left):
        left, operator, right = right, mirrored[operator], left
    if not _VARIABLE.fullmatch(left) or _VARIABLE.fullmatch(right):
        return None
    closed = operator in (r"\le", r"\ge")
    below, above = Piece(_LOW, False, right, closed), Piece(right, closed, _HIGH, False)
    if operator == r"\ne":
        return left, (below, above)
    return left, (below,) if operator in ("<", r"\le") else (above,)


def _together(pieces: list[Piece]) -> list[Piece]:
    """Return two half-lines that meet as the interval between, all else as it is."""
    if len(pieces) != 2:
        return pieces
    lower = next((piece for piece in pieces if piece.right == _HIGH and piece.left != _LOW), None)
    upper = next((piece for piece in pieces if piece.left == _LOW and piece.right != _HIGH), None)
    if lower is None or upper is None:
        return pieces
    start, end = parse_exact(lower.left), parse_exact(upper.right)
    if start is not None and end is not None and start >= end:
        return pieces
    return [Piece(lower.left, lower.left_closed, upper.right, upper.right_closed)]
