"""A strict text form of Python's plain values; whoever reads one gets an exact built-in type or an error.

A value that claims to equal everything cannot travel: only what it is made of does.
"""

from __future__ import annotations

import builtins
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

DEEPEST = 60
_EXACT_IN_JSON = 1 << 53
_LONGEST_ITERATOR = 100_000


class NotPlain(Exception):
    """A value has no text form, or a text is no value."""


def no_reference(value: object) -> NoReturn:
    """Refuse an object that is not plain."""
    raise NotPlain(f"a value of type {type(value).__name__} is not plain")


def dump(value: object, refer: Callable[[object], int] = no_reference) -> str:
    """Return the text of a value, on one line.

    Args:
        value: made of None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict,
            deque, range, Decimal, Fraction, built-in types, or a view of a dict. A value of a derived type travels as
            its base type, an iterator as the items it had left.
        refer: gives the number by which another object is known to the reader.

    Raises:
        NotPlain: it holds something else, or is nested too deeply.
    """
    return json.dumps(encode(value, refer), separators=(",", ":"))


def load(text: str | bytes, fetch: Callable[[int], object] = no_reference) -> Any:
    """Return the value of a text.

    Raises:
        NotPlain: it is not one.
    """
    try:
        return decode(json.loads(text), fetch)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, MemoryError) as error:
        raise NotPlain(f"no value: {type(error).__name__}") from None


def encode(value: object, refer: Callable[[object], int] = no_reference, depth: int = 0) -> Any:
    """Return the value as what JSON can hold: lists as lists, other kinds as an object of one entry."""
    if depth > DEEPEST:
        raise NotPlain("a value is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    for kind, write in _SCALARS.items():
        if isinstance(value, kind):
            return write(value)
    if isinstance(value, list):
        return [encode(part, refer, depth + 1) for part in list.__iter__(value)]
    if isinstance(value, dict):
        return {"dict": [[encode(part, refer, depth + 1) for part in pair] for pair in dict.items(value)]}
    for kind, name in _CONTAINERS.items():
        if isinstance(value, kind):
            return {name: [encode(part, refer, depth + 1) for part in kind.__iter__(value)]}
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        return {"iterator": [encode(part, refer, depth + 1) for part in _items(value)]}
    kind: object = value
    if isinstance(kind, type) and getattr(builtins, kind.__name__, None) is kind:
        return {"type": kind.__name__}
    return {"object": refer(value)}


def decode(data: Any, fetch: Callable[[int], object] = no_reference, depth: int = 0) -> Any:
    """Return the value that ``encode`` wrote as ``data``."""
    if depth > DEEPEST:
        raise NotPlain("a value is nested too deeply")
    if isinstance(data, list):
        return [decode(part, fetch, depth + 1) for part in data]
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


def _items(value: Iterator[object]) -> Iterator[object]:
    for number, item in enumerate(value):
        if number >= _LONGEST_ITERATOR:
            raise NotPlain("an iterator has no end")
        yield item


def _integer(value: int) -> Any:
    exact = int.__index__(value)
    return exact if -_EXACT_IN_JSON < exact < _EXACT_IN_JSON else {"int": hex(exact)}


def _type(name: str) -> type:
    found = getattr(builtins, name)
    if not isinstance(found, type):
        raise NotPlain(f"{name} is no type")
    return found


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
    Fraction: lambda value: {"fraction": f"{value.numerator}/{value.denominator}"},
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
    "fraction": Fraction,
    "type": _type,
}
