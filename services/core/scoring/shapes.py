"""What kind of thing a mathematical answer is: an expression, an equation, a tuple, a set, intervals, a matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from services.core.scoring.inequalities import Piece, read_inequalities
from services.core.scoring.latex import depths, split_outside
from services.core.scoring.rational import parse_exact
from services.core.scoring.units import number_in_sentence, split_unit

_COMMA = re.compile(r"[,;]")
_LIST = re.compile(
    r"[,;]\s*(?:\\text\{\s*(?:and|or)\s*\}|(?:and|or)(?![A-Za-z]))|[,;]"
    r"|\\text\{\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|\\(?:land|lor|wedge|vee)(?![a-zA-Z])"
)
_UNION = re.compile(r"\\cup(?![a-zA-Z])|(?<![A-Za-z\\])U(?=\s*[\[(])")
_EQUALS = re.compile(r"(?<![<>!:\\])=(?!=)|==")
_ABOUT = re.compile(r"\\approx(?![a-zA-Z])")
_MATRIX = re.compile(r"\\begin\{([pbvBV]?matrix|array)\}(?:\{[lcr|\s]*\})?(.*)\\end\{\1\}", re.DOTALL)
_MEMBER = re.compile(r"(?:[A-Za-z]|\\[a-z]+)\s*\\in(?![a-zA-Z])\s*(.+)", re.DOTALL)
_BUILDER = re.compile(r"\\\{\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?:\\mid|\||:)\s*(.+)\\\}", re.DOTALL)
_REALS = re.compile(
    r"\\mathbb\{R\}|\\mathbb R|(?:\\text\{)?all real(?: numbers)?\}?|(?:\\text\{)?all reals\}?", re.IGNORECASE
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_SIGNS = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")
_BRACKETS = (
    (r"\{", r"\}", "set"), ("(", ")", "tuple"), ("[", "]", "bracket"),
)  # fmt: skip


class Kind(StrEnum):
    TUPLE = "tuple"  # in round brackets; two entries may also be an open interval
    BRACKET = "bracket"  # in square brackets; two entries may also be a closed interval
    SET = "set"
    LIST = "list"  # without brackets


@dataclass(frozen=True)
class Scalar:
    text: str


@dataclass(frozen=True)
class Equation:
    """``left = ... = right``; a chain keeps its ends."""

    left: str
    right: str
    text: str


@dataclass(frozen=True)
class Group:
    kind: Kind
    items: tuple[str, ...]


@dataclass(frozen=True)
class Intervals:
    """A union of intervals; ``text`` is how it was written."""

    pieces: tuple[Piece, ...]
    text: str


@dataclass(frozen=True)
class Matrix:
    """Rows of entries; ``bars`` for a determinant."""

    rows: tuple[tuple[str, ...], ...]
    bars: bool = False


Shape: TypeAlias = Scalar | Equation | Group | Intervals | Matrix


def read(text: str) -> Shape:
    """Return the shape of a tidied expression; what has no other shape is a scalar."""
    plain = next((part.strip() for part in _ABOUT.split(text) if part.strip()), text)
    if parse_exact(plain) is not None or parse_exact(split_unit(plain).value) is not None:
        return Scalar(plain)
    if number_in_sentence(plain) is not None:
        return Scalar(plain)
    for reader in (_special, _matrix, _intervals, _listed, _bracketed, _equation, _both_signs):
        found = reader(plain)
        if found is not None:
            return found
    return Scalar(plain)


def listed(text: str) -> Group | None:
    """Return ``1,234`` as the list of 1 and 234, what it is where it is no number."""
    if not _GROUPED.fullmatch(text):
        return None
    return Group(Kind.LIST, tuple(part.strip() for part in text.split(",")))


def as_intervals(shape: Shape) -> Intervals | None:
    """Return ``(1,2)`` and ``[1,2]`` as intervals, and intervals as they are."""
    if isinstance(shape, Intervals):
        return shape
    if isinstance(shape, Group) and len(shape.items) == 2 and shape.kind in (Kind.TUPLE, Kind.BRACKET):
        closed = shape.kind is Kind.BRACKET
        left, right = shape.items
        return Intervals((Piece(left, closed, right, closed),), "")
    return None


def _special(text: str) -> Shape | None:
    member = _MEMBER.fullmatch(text)
    if member is not None:
        return read(member.group(1).strip())
    builder = _BUILDER.fullmatch(text)
    if builder is not None:
        return read(builder.group(2).strip())
    if _REALS.fullmatch(text):
        return Intervals((Piece(r"-\infty", False, r"\infty", False),), text)
    if text.replace(" ", "") in ("\\emptyset", r"\{\}"):
        return Group(Kind.SET, ())
    return None


def _matrix(text: str) -> Shape | None:
    match = _MATRIX.fullmatch(text)
    if match is None or r"\begin" in match.group(2):
        return None
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", match.group(2)) if row.strip(" &")]
    entries = tuple(tuple(entry.strip() for entry in row.split("&")) for row in rows)
    return Matrix(entries, bars=match.group(1) == "vmatrix")


def _intervals(text: str) -> Shape | None:
    pieces = read_inequalities(text)
    if pieces is not None:
        return Intervals(pieces, text)
    parts = split_outside(text, _UNION)
    found: list[Piece] = []
    for part in parts:
        shape = _half_open(part.strip()) or (_bracketed(part.strip()) if len(parts) > 1 else None)
        intervals = as_intervals(shape) if shape is not None else None
        if intervals is None:
            return None
        found.extend(intervals.pieces)
    return Intervals(tuple(found), text)


def _half_open(text: str) -> Shape | None:
    if len(text) < 5 or text[0] not in "([" or text[-1] not in ")]" or (text[0] == "(") == (text[-1] == ")"):
        return None
    ends = split_outside(text[1:-1], _COMMA)
    if not _spans(text) or len(ends) != 2 or not all(end.strip() for end in ends):
        return None
    return Intervals((Piece(ends[0].strip(), text[0] == "[", ends[1].strip(), text[-1] == "]"),), text)


def _listed(text: str) -> Shape | None:
    parts = [part.strip() for part in split_outside(text, _LIST)]
    if len(parts) < 2 or not all(parts):
        return None
    return Group(Kind.LIST, tuple(_with_signs(parts)))


def _bracketed(text: str) -> Shape | None:
    for opening, closing, kind in _BRACKETS:
        if not (text.startswith(opening) and text.endswith(closing)) or len(text) < len(opening) + len(closing):
            continue
        inner = text[len(opening) : len(text) - len(closing)]
        parts = [part.strip() for part in split_outside(inner, _COMMA)]
        if not _spans(text) or not all(parts):
            return None
        if len(parts) == 1 and kind == "tuple":
            return read(parts[0])
        return Group(Kind(kind), tuple(_with_signs(parts)))
    return None


def _equation(text: str) -> Shape | None:
    parts = [part.strip() for part in split_outside(text, _EQUALS)]
    if len(parts) < 2 or not all(parts):
        return None
    return Equation(parts[0], parts[-1], text)


def _both_signs(text: str) -> Shape | None:
    items = _with_signs([text])
    return Group(Kind.LIST, tuple(items)) if len(items) > 1 else None


def _with_signs(items: list[str]) -> list[str]:
    """Return the items with each that has a plus-minus as two; the signs of one item change together."""
    found: list[str] = []
    for item in items:
        if not _SIGNS.search(item):
            found.append(item)
            continue
        for plus, minus in (("+", "-"), ("-", "+")):
            signed = re.sub(r"\\pm(?![a-zA-Z])", plus, item)
            found.append(re.sub(r"\\mp(?![a-zA-Z])", minus, signed).strip().removeprefix("+").strip())
    return found


def _spans(text: str) -> bool:
    """Tell whether the bracket at the start is closed by the one at the end."""
    levels = depths(text)
    inside = levels[text.index(next(character for character in text if character in "([{")) : -1]
    closing = [index for index, character in enumerate(text[:-1]) if character in ")]}" and levels[index] == 1]
    return bool(inside) and not closing
