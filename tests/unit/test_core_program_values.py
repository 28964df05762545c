"""Plain values travel exactly; nothing else does."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.scoring.program.inside.plain_values import NotPlain, decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(SCALARS, max_size=4)
        | st.frozensets(SCALARS, max_size=4)
        | st.dictionaries(SCALARS, inner, max_size=4)
    ),
    max_leaves=12,
)


def travelled(value: object) -> Any:
    return decode(json.loads(json.dumps(encode(value))))


def kinds(value: object) -> object:
    """Return the types of a value and of all its parts; sets and dicts by their sorted parts."""
    if isinstance(value, dict):
        return dict, [(kinds(key), kinds(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [kinds(part) for part in value]
    return type(value)


@given(VALUES)
def test_a_plain_value_arrives_as_it_was(value: object) -> None:
    arrived = travelled(value)
    assert arrived == value
    assert kinds(arrived) == kinds(value)


def test_special_numbers_arrive() -> None:
    huge = 10**5000
    assert math.isnan(travelled(math.nan))
    assert travelled([math.inf, -math.inf, huge, -huge]) == [math.inf, -math.inf, huge, -huge]
    assert math.copysign(1, travelled(-0.0)) == -1
    assert travelled("\ud800") == "\ud800"


class AlwaysEqual(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (AlwaysEqual("x"), "x"),
        (Pair(1, 2), (1, 2)),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(b=1), {"b": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (deque([1, 2]), deque([1, 2])),
        (range(1, 9, 2), range(1, 9, 2)),
        (bytearray(b"ab"), bytearray(b"ab")),
        ({"b": 1, "a": 2}.keys(), {"b": 1, "a": 2}.keys()),
        (int, int),
        (ValueError, ValueError),
    ],
)
def test_a_derived_value_arrives_as_its_base(value: object, arrives: object) -> None:
    arrived = travelled(value)
    assert type(arrived) is type(arrives)
    assert arrived == arrives


def test_iterators_arrive_as_iterators_of_what_they_had_left() -> None:
    items = iter([1, 2, 3])
    next(items)
    arrived = travelled(items)
    assert arrived != [2, 3]
    assert list(arrived) == [2, 3]
    assert list(travelled(x * x for x in range(3))) == [0, 1, 4]
    assert list(travelled({"b": 1, "a": 2}.values())) == [1, 2]


def loop() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize("value", [object(), loop(), test_special_numbers_arrive, Pair, iter(int, 1)])
def test_what_is_not_plain_does_not_travel(value: object) -> None:
    with pytest.raises(NotPlain):
        encode(value)


def test_an_object_travels_as_its_number() -> None:
    thing, known = object(), list[object]()

    def refer(value: object) -> int:
        known.append(value)
        return len(known) - 1

    sent = json.loads(json.dumps(encode([thing, 1], refer)))
    assert decode(sent, known.__getitem__) == [thing, 1]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"a": 1, "b": 2},
        {"list": [1]},
        {"int": 5},
        {"int": "12z"},
        {"type": "eval"},
        {"type": "__import__"},
        {"object": 0},
        {"fraction": ["0x1", "0x0"]},
        {"set": [[]]},
        {"dict": [[1]]},
        {"range": [1, 2, 0]},
        {"complex": [1]},
        {"decimal": "x"},
        {"iterator": 3},
    ],
)
def test_a_forged_value_is_refused(data: object) -> None:
    with pytest.raises((NotPlain, ValueError, TypeError, KeyError, ArithmeticError)):
        decode(data)
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(NotPlain):
        decode(deep)


def test_decimals_and_fractions_arrive() -> None:
    assert travelled((Decimal("1.50"), Fraction(-1, 3))) == (Decimal("1.50"), Fraction(-1, 3))
