"""A strict form of Python's plain values for JSON; whoever reads one gets an exact built-in type or an error.

A value that claims to equal everything cannot travel: only what it is made of does.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

DEEPEST = 60
_LARGEST = 10**4000  # Python reads no longer decimal integer
_AS_THEY_ARE = frozenset({bool, float, str, type(None)})
_BUILT_IN_TYPES = [value for value in vars(builtins).values() if isinstance(value, type)]
_LONGEST_ITERATOR = 100_000


class NotPlain(Exception):
    """A value has no such form, or it is the form of no value."""


def no_reference(value: object) -> NoReturn:
    """Refuse an object that is not plain."""
    raise NotPlain(f"a value of type {type(value).__name__} is not plain")


def encode(value: object, refer: Callable[[object], int] = no_reference, depth: int = 0) -> Any:
    """Return a value as what JSON can hold: lists as lists, other kinds as an object of one entry.

    Args:
        value: made of None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, deque, range,
            Decimal, Fraction, built-in types, views of a dict. Derived types travel as their base, iterators as items.
        refer: gives the number by which another object is known to the reader.
        depth: of nesting so far.

    Raises:
        NotPlain: it holds something else, or is nested too deeply.
    """
    if depth > DEEPEST:
        raise NotPlain("a value is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    for scalar, write in _SCALARS.items():
        if isinstance(value, scalar):
            return write(value)
    if isinstance(value, list):
        return _encoded(list.__iter__(value), refer, depth)
    if isinstance(value, dict):
        return {"dict": [_encoded(pair, refer, depth) for pair in dict.items(value)]}
    for container, name in _CONTAINERS.items():
        if isinstance(value, container):
            return {name: _encoded(container.__iter__(value), refer, depth)}
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        return {"iterator": _encoded(_items(value), refer, depth)}
    if isinstance(value, type) and value in _BUILT_IN_TYPES:
        return {"type": value.__name__}
    return {"object": refer(value)}


def decode(data: Any, fetch: Callable[[int], object] = no_reference, depth: int = 0) -> Any:
    """Return the value that ``encode`` wrote as ``data``.

    Raises:
        NotPlain, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError: it is none.
    """
    if depth > DEEPEST:
        raise NotPlain("a value is nested too deeply")
    if isinstance(data, list):
        return [decode(part, fetch, depth + 1) if type(part) in (list, dict) else part for part in data]
    if not isinstance(data, dict):
        return data
    ((name, inner),) = data.items()
    if name == "object":
        return fetch(inner)
    if name == "dict":
        return {decode(key, fetch, depth + 1): decode(part, fetch, depth + 1) for key, part in inner}
    if name in _MAKE:
        return _MAKE[name]([decode(part, fetch, depth + 1) for part in inner])
    return _READ[name](inner)


def _encoded(parts: Iterable[object], refer: Callable[[object], int], depth: int) -> list[Any]:
    """Return the parts of a value encoded; a million numbers take a tenth of a second, which is the program's time."""
    return [
        part
        if type(part) in _AS_THEY_ARE or (type(part) is int and -_LARGEST < part < _LARGEST)
        else encode(part, refer, depth + 1)
        for part in parts
    ]


def _items(value: Iterator[object]) -> Iterator[object]:
    for number, item in enumerate(value):
        if number >= _LONGEST_ITERATOR:
            raise NotPlain("an iterator has no end")
        yield item


def _integer(value: int) -> Any:
    exact = int.__index__(value)
    return exact if -_LARGEST < exact < _LARGEST else {"int": hex(exact)}


def _pair(parts: Sequence[float]) -> complex:
    real, imaginary = parts
    return complex(real, imaginary)


_SCALARS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: _integer,
    float: float.__float__,
    bytes: lambda value: {"bytes": bytes.hex(value)},
    bytearray: lambda value: {"bytearray": bytearray.hex(value)},
    complex: lambda value: {"complex": [value.real, value.imag]},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
    Decimal: lambda value: {"decimal": Decimal.__str__(value)},
    Fraction: lambda value: {"fraction": [hex(value.numerator), hex(value.denominator)]},
}
_CONTAINERS: dict[Any, str] = {
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    deque: "deque",
    type({}.keys()): "keys",
    type({}.values()): "values",
    type({}.items()): "items",
}
_MAKE: Mapping[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "keys": lambda parts: dict.fromkeys(parts).keys(),
    "values": lambda parts: dict(enumerate(parts)).values(),
    "items": lambda parts: dict(parts).items(),
    "iterator": iter,
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": _pair,
    "range": lambda parts: range(*parts),
    "decimal": Decimal,
    "fraction": lambda parts: Fraction(int(parts[0], 16), int(parts[1], 16)),
    "type": {kind.__name__: kind for kind in _BUILT_IN_TYPES}.__getitem__,
}
