"""Frozen records from JSON without any coercion: a missing, unknown or wrong field is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from services.core.errors import SpecError

_LONGEST = 100  # characters of a wrong value that an error repeats


def read(kind: Any, value: Any, path: str) -> Any:
    """Return the record that ``plain`` turned into ``value``.

    Args:
        kind: a dataclass of texts, numbers, enums, tuples, mappings of them, and such dataclasses.
        value: what JSON had there.
        path: of it, as errors name it.

    Raises:
        SpecError: it is something else; names the field.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _optional(kind, value, path)
    if origin is tuple:
        return _items(kind, value, path)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(kind, value, path)
    if is_dataclass(kind):
        return _record(kind, value, path)
    return _scalar(kind, value, path)


def plain(value: Any) -> Any:
    """Return a record as what JSON knows; amounts of money as texts."""
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str | Decimal) else value


def require_keys(value: Any, wanted: set[str], path: str) -> None:
    """Raise SpecError unless ``value`` is a mapping with exactly these keys."""
    if not isinstance(value, Mapping):
        raise wrong(path, value, f"an object with {', '.join(sorted(wanted))}")
    prefix = f"{path}." if path else ""
    for key in sorted(wanted - set(value)):
        raise SpecError(f"{prefix}{key}", "nothing", "this field")
    for key in sorted(set(value) - wanted):
        raise SpecError(f"{prefix}{key[:_LONGEST]}", "an unknown field", f"only {', '.join(sorted(wanted))}")


def wrong(path: str, value: Any, wanted: str) -> SpecError:
    """Return the error for a value, of which a long one is not repeated whole."""
    shown = repr(value)
    return SpecError(path, value if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}...", wanted)


def _record(kind: Any, value: Any, path: str) -> Any:
    hints = get_type_hints(kind)
    names = {entry.name for entry in fields(kind)}
    require_keys(value, names, path)
    prefix = f"{path}." if path else ""
    return kind(**{name: read(hints[name], value[name], f"{prefix}{name}") for name in names})


def _optional(kind: Any, value: Any, path: str) -> Any:
    (inner,) = (each for each in get_args(kind) if each is not type(None))
    return None if value is None else read(inner, value, path)


def _items(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise wrong(path, value, "a list")
    inner = get_args(kind)[0]
    return tuple(read(inner, item, f"{path}.{index}") for index, item in enumerate(value))


def _mapping(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise wrong(path, value, "an object")
    inner = get_args(kind)[1]
    return {key: read(inner, item, f"{path}.{key}") for key, item in value.items()}


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and type(value) in (int, float):
        if not math.isfinite(value):
            raise wrong(path, value, "a finite number")
        return float(value)
    if kind is Decimal and isinstance(value, str):
        return _amount(value, path)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise wrong(path, value, f"one of {', '.join(kind)}")
        return kind(value)
    if type(value) is not kind:
        raise wrong(path, value, {str: "a text", int: "a whole number", bool: "true or false"}.get(kind, "a number"))
    return value


def _amount(value: str, path: str) -> Decimal:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise wrong(path, value, "an amount such as 2.50")
    return amount
