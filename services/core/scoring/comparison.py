"""Comparing answers by their shape: entry by entry, exact values first; a symbolic comparison only for what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from services.core.scoring.based import same_based
from services.core.scoring.inequalities import Piece
from services.core.scoring.latex import depth, key
from services.core.scoring.ports import Equivalence
from services.core.scoring.rational import out_of_reach, parse_close, parse_exact
from services.core.scoring.shapes import Equation, Group, Intervals, Kind, Matrix, Scalar, Shape, as_intervals, read
from services.core.scoring.units import number_in_sentence, split_unit, units_agree
from services.core.scoring.words import plain_words, words

DEEPEST = 24
_LONGEST_ASKED = 400
_MOST_ITEMS = 60
_MOST_ASKED = 40
_ROUNDED_DIGITS = 3
_LABEL = re.compile(r"\\text\{[^{}]*\}|[A-Za-z][A-Za-z ]{2,}")
_FUNCTION = re.compile(r"y|[a-zA-Z]\s?\([a-z]\)")
_INFINITE = re.compile(r"[-+]?\\infty")
_FAR = Fraction(1, 10**6)
_LONG_NUMBER = re.compile(r"\d{200}")
_NAME = re.compile(
    r"(?:[A-Za-z]|\\[a-z]+)(?:_(?:\w|\{[^{}]*\}))?'*(?:\([a-zA-Z0-9, ]{1,10}\))?|\\text\{[^{}]*\}|[A-Za-z ]{2,40}"
    r"|\\(?:angle|triangle|overline|mathbf|vec)\s*\{?\s*[A-Z]{1,4}\}?|\|[A-Za-z]\||\([a-zA-Z](?:,\s*[a-zA-Z])+\)"
)


class Comparison:
    """Compares shapes; True, False, or None where only a symbolic comparison could tell and there is none."""

    def __init__(self, equivalence: Equivalence | None) -> None:
        self._equivalence = equivalence
        self.asked = 0
        self.undecided = ""

    def texts(self, wanted: str, given: str) -> bool | None:
        return key(wanted) == key(given) or self.shapes(read(wanted), read(given))

    def alternatives(self, wanted: str, given: Shape) -> bool | None:
        """Tell whether each of several listed answers is the one wanted, as in ``15 39/40 or 639/40``."""
        if not isinstance(given, Group) or given.kind is not Kind.LIST or not 1 < len(given.items) <= 4:
            return False
        if any(split_unit(item).unit == "?" for item in given.items):
            return False
        return _all(self.texts(wanted, item) for item in given.items)

    def shapes(self, wanted: Shape, given: Shape) -> bool | None:
        if isinstance(wanted, Equation) or isinstance(given, Equation):
            return self._equations(wanted, given)
        if isinstance(wanted, Intervals) or isinstance(given, Intervals):
            return self._intervals(wanted, given)
        if isinstance(wanted, Matrix) or isinstance(given, Matrix):
            return self._matrices(wanted, given)
        if isinstance(wanted, Group) or isinstance(given, Group):
            return self._groups(_group(wanted), _group(given))
        return self._scalars(wanted.text, given.text)

    def _equations(self, wanted: Shape, given: Shape) -> bool | None:
        if not isinstance(wanted, Equation):
            assert isinstance(given, Equation)
            stated = _NAME.fullmatch(given.left) or parse_exact(given.right) != 0  # x - y = 0 does not answer 0
            return self.shapes(wanted, read(given.right)) if stated else False
        if not isinstance(given, Equation):
            return self.shapes(read(wanted.right), given) if _NAME.fullmatch(wanted.left) else False
        if key(wanted.left) == key(given.left) or _same_role(wanted.left, given.left):
            same = self.texts(wanted.right, given.right)
            if same is not False or (_NAME.fullmatch(wanted.left) and parse_exact(wanted.right) is not None):
                return same
        return self._ask(wanted.text, given.text)

    def _intervals(self, wanted: Shape, given: Shape) -> bool | None:
        left, right = as_intervals(wanted), as_intervals(given)
        if left is not None and right is not None:
            return self._matching(
                len(left.pieces), len(right.pieces), lambda i, j: self._pieces(left.pieces[i], right.pieces[j])
            )
        if isinstance(wanted, Scalar) and isinstance(given, Intervals):
            return self._ask(wanted.text, given.text) if parse_exact(wanted.text) is None else False
        if isinstance(given, Scalar) and isinstance(wanted, Intervals):
            return self._ask(wanted.text, given.text) if parse_exact(given.text) is None else False
        return False

    def _pieces(self, wanted: Piece, given: Piece) -> bool | None:
        if (wanted.left_closed, wanted.right_closed) != (given.left_closed, given.right_closed):
            return False
        return _all((self.texts(wanted.left, given.left), self.texts(wanted.right, given.right)))

    def _matrices(self, wanted: Shape, given: Shape) -> bool | None:
        left, right = _rows(wanted, given), _rows(given, wanted)
        if left is None or right is None or [len(row) for row in left] != [len(row) for row in right]:
            return False
        if isinstance(wanted, Matrix) and isinstance(given, Matrix) and wanted.bars != given.bars:
            return False
        return self._in_order([entry for row in left for entry in row], [entry for row in right for entry in row])

    def _groups(self, wanted: Group, given: Group) -> bool | None:
        if max(len(wanted.items), len(given.items)) > _MOST_ITEMS or not _comparable(wanted, given):
            return False
        if wanted.kind in (Kind.TUPLE, Kind.BRACKET):
            return self._in_order(list(wanted.items), list(given.items))
        left, right = _distinct(wanted), _distinct(given)
        return self._matching(len(left), len(right), lambda i, j: self.texts(left[i], right[j]))

    def _in_order(self, wanted: list[str], given: list[str]) -> bool | None:
        if len(wanted) != len(given) or len(wanted) > _MOST_ITEMS:
            return False
        return _all(self.texts(left, right) for left, right in zip(wanted, given, strict=True))

    def _matching(self, wanted: int, given: int, same: Callable[[int, int], bool | None]) -> bool | None:
        """Pair each wanted entry with another given one; greedy, as being the same is transitive."""
        if wanted != given:
            return False
        free = list(range(given))
        unsure = False
        for left in range(wanted):
            verdicts = {right: same(left, right) for right in free}
            match = next((right for right, verdict in verdicts.items() if verdict), None)
            if match is not None:
                free.remove(match)
            elif None in verdicts.values():
                unsure = True
            else:
                return False
        return None if unsure else True

    def _scalars(self, wanted: str, given: str) -> bool | None:
        if key(wanted) == key(given):
            return True
        based = same_based(wanted, given)
        if based is not None:
            return based
        left, right = split_unit(wanted), split_unit(given)
        if "percent" in (left.unit, right.unit) and left.unit != right.unit:
            return self._percent(left.value, right.value, right.unit if left.unit == "percent" else left.unit)
        if not units_agree(left.unit, right.unit):
            return False
        return self._values(left.value, right.value)

    def _percent(self, wanted: str, given: str, other_unit: str) -> bool | None:
        """50 % is 50 (the sign left out) and 1/2."""
        if other_unit not in ("", "?"):
            return False
        left, right = parse_exact(wanted), parse_exact(given)
        if left is None or right is None:
            return self._values(wanted, given)
        return left in (right, right * 100, right / 100)

    def _values(self, wanted: str, given: str) -> bool | None:
        if key(wanted) == key(given):
            return True
        left, right = parse_exact(wanted), parse_exact(given)
        if left is not None and right is not None:
            return left == right or _rounds(wanted, given, right)
        if left is not None and (number := number_in_sentence(given)) is not None:
            return left == parse_exact(number)
        left_words, right_words = words(wanted), words(given)
        if left_words is not None or right_words is not None:
            return plain_words(wanted) == plain_words(given)
        if _far_apart(wanted, given):
            return False
        return self._ask(wanted, given)

    def _ask(self, wanted: str, given: str) -> bool | None:
        """Let the symbolic comparison decide, within bounds that are checked before it sees anything."""
        for text in (wanted, given):
            if len(text) > _LONGEST_ASKED or depth(text) > DEEPEST or _LONG_NUMBER.search(text) or out_of_reach(text):
                self.undecided = "not compared: too long, too deep or too large an expression"
                return False
        if self._equivalence is None:
            return None
        self.asked += 1
        if self.asked > _MOST_ASKED:
            self.undecided = f"not compared: more than {_MOST_ASKED} parts need a symbolic comparison"
            return False
        equal = self._equivalence.equal(wanted, given)
        if equal is None:
            self.undecided = "not compared: unreadable as mathematics, or too much work"
        return bool(equal)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False when one is False, else None when one is unknown; stops at the first False."""
    unsure = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unsure = unsure or verdict is None
    return None if unsure else True


def _far_apart(wanted: str, given: str) -> bool:
    """Tell whether two values are nowhere near each other; a decimal may be a rounded one, so nothing is said of it."""
    left, right = parse_close(wanted), parse_close(given)
    if left is None or right is None or "." in wanted:
        return (left is None) != (right is None) and any(_INFINITE.fullmatch(key(text)) for text in (wanted, given))
    return abs(left - right) > _FAR * max(abs(left), abs(right))


def _group(shape: Shape) -> Group:
    if isinstance(shape, Group):
        return shape
    assert isinstance(shape, Scalar)
    return Group(Kind.LIST, (shape.text,))


def _comparable(wanted: Group, given: Group) -> bool:
    """Tell which kinds may stand for which: order counts for tuples, and a set is no tuple."""
    if wanted.kind is Kind.TUPLE:
        return given.kind in (Kind.TUPLE, Kind.LIST) or (given.kind is Kind.BRACKET and len(given.items) > 2)
    if wanted.kind is Kind.BRACKET:
        return given.kind is Kind.BRACKET or (given.kind is not Kind.SET and len(given.items) > 2)
    if wanted.kind is Kind.SET:
        return given.kind is not Kind.TUPLE
    return True


def _distinct(group: Group) -> list[str]:
    """Return the entries, those of a set once each."""
    if group.kind is not Kind.SET:
        return list(group.items)
    return list({parse_exact(item) or key(item): item for item in group.items}.values())


def _rows(shape: Shape, other: Shape) -> list[list[str]] | None:
    """Return the rows of a matrix; a tuple next to a matrix of one column or row is that column or row."""
    if isinstance(shape, Matrix):
        return [list(row) for row in shape.rows]
    if isinstance(shape, Group) and shape.kind is not Kind.SET and isinstance(other, Matrix):
        return [list(shape.items)] if len(other.rows) == 1 else [[item] for item in shape.items]
    return None


def _same_role(wanted: str, given: str) -> bool:
    r"""Tell whether both left sides are words, as ``\text{Area}``, or a function's name, as ``y`` and ``f(x)``."""
    return any(pattern.fullmatch(wanted) and pattern.fullmatch(given) for pattern in (_LABEL, _FUNCTION))


def _rounds(wanted: str, given: str, value: Fraction) -> bool:
    """Tell whether a fraction rounds to a reference that is itself a decimal of three significant digits or more."""
    decimal = re.fullmatch(r"[-+]?(\d*)\.(\d+)", wanted.replace(" ", ""))
    if decimal is None or "." in given or len((decimal.group(1) + decimal.group(2)).lstrip("0")) < _ROUNDED_DIGITS:
        return False
    return abs(value - Fraction(wanted.replace(" ", ""))) <= Fraction(1, 2 * 10 ** len(decimal.group(2)))
