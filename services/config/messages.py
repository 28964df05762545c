"""Turns what pydantic found wrong into one SpecError: the field, its line, what was got and what is wanted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from services.config.fields import SECRET
from services.config.problems_section import TAGS
from services.config.yaml_reader import ABSENT, Document, Key
from services.core.errors import SpecError, TrinityError, UnknownPrice

_SECRET = ("key", "password", "secret", "database_url", "broker_url")
SHOWN = 60

_WANTED: Mapping[str, str] = {
    "missing": "a value",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_too_short": "text that is not empty",
}

_WANTED_WITH: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda limit: f"a number above {limit['gt']}",
    "greater_than_equal": lambda limit: f"a number of at least {limit['ge']}",
    "less_than": lambda limit: f"a number below {limit['lt']}",
    "less_than_equal": lambda limit: f"a number of at most {limit['le']}",
    "literal_error": lambda limit: str(limit["expected"]),
    "enum": lambda limit: str(limit["expected"]),
    "string_pattern_mismatch": lambda limit: f"text that matches {limit['pattern']}",
    "too_short": lambda limit: f"at least {limit['min_length']} entry",
    "too_long": lambda limit: f"at most {limit['max_length']} entries",
    "string_too_long": lambda limit: f"at most {limit['max_length']} characters",
    "value_error": lambda limit: str(limit["error"]),
    "union_tag_invalid": lambda limit: f"one of {limit['expected_tags']}",
    "union_tag_not_found": lambda limit: "generated, jsonl or benchmarks",
}


def spec_error(error: ValidationError, document: Document, root: type[BaseModel]) -> TrinityError:
    """Return one error that lists everything pydantic found; its path, got and wanted are the first one's.

    Returns:
        UnknownPrice when the first fault is a pool model without a price, else SpecError.
    """
    found = [one for one in error.errors(include_url=False) if not _is_echo(one)]
    details = sorted(found, key=lambda one: document_order(one, document))
    faults = [_fault(one, document, root) for one in details]
    path, got, wanted = faults[0]
    more = "".join(f"; also {where}: got {value!r}, wanted {what}" for where, value, what in faults[1:])
    first = details[0]
    if "price" in first["loc"] and (first["type"] == "missing" or first["input"] is None):
        return UnknownPrice(f"{path}: got {got!r}, wanted {wanted}{more}")
    return SpecError(path, got, wanted + more)


def _is_echo(detail: ErrorDetails) -> bool:
    """Tell whether a list counts as too short only because pydantic left its wrong entries out."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def document_order(detail: ErrorDetails, document: Document) -> int:
    """Return the line the fault stands in, so that the first one told is the first one read."""
    known = field_path(detail["loc"], document.value)
    while known and known not in document.lines:
        known = known[:-1]
    return document.lines.get(known, 0)


def field_path(location: Iterable[Key], value: Any) -> tuple[Key, ...]:
    """Return pydantic's location without the names that it adds for the members of a union."""
    path: list[Key] = []
    for part in location:
        inside = isinstance(value, Mapping) and part in value
        if not inside and part in TAGS:
            continue
        path.append(part)
        if inside or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
        else:
            value = None
    return tuple(path)


def _fault(detail: ErrorDetails, document: Document, root: type[BaseModel]) -> tuple[str, object, str]:
    path = field_path(detail["loc"], document.value)
    kind = detail["type"]
    where = document.where(path)
    if kind == "extra_forbidden":
        return where, path[-1], _known_keys(str(path[-1]), root, detail["loc"])
    if kind == "missing":
        return where, ABSENT, _wanted_field(path)
    if kind.startswith("union_tag"):
        source = detail["input"].get("source", ABSENT)
        return document.where((*path, "source")), shown(source), wanted_of(detail)
    if path[-1:] == ("price",) and detail["input"] is None:
        return where, None, _wanted_field(path)
    got = detail["input"] if not isinstance(detail["input"], BaseModel) else _at(document.value, path)
    return where, shown(masked(path, got)), wanted_of(detail)


def wanted_of(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind in _WANTED:
        return _WANTED[kind]
    if kind in _WANTED_WITH:
        return _WANTED_WITH[kind](detail.get("ctx", {}))
    return detail["msg"]


def _wanted_field(path: tuple[Key, ...]) -> str:
    if "price" in path:
        return "the model's price in USD per million tokens, as {input: ..., output: ...}"
    return "a value"


def masked(path: tuple[Key, ...], value: object) -> object:
    """Return the value, or a stand-in where it may be a secret somebody pasted."""
    name = str(path[-1]) if path else ""
    secret = any(word in name.lower() for word in _SECRET)
    secret = secret or (isinstance(value, str) and ("@" in value or SECRET.search(value) is not None))
    return "(hidden)" if secret else value


def shown(value: object) -> object:
    """Return the value, or what it is in a few words where the whole would drown the message."""
    if isinstance(value, Mapping):
        return _Phrase(f"a mapping with the keys {', '.join(map(str, value)) or '(none)'}")
    text = repr(value)
    return value if len(text) <= SHOWN else _Phrase(text[:SHOWN] + "...")


class _Phrase(str):
    """Text that a message shows without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _at(value: Any, path: tuple[Key, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def _known_keys(key: str, root: type[BaseModel], location: tuple[Key, ...]) -> str:
    known = sorted(_model_at(root, location[:-1]).model_fields)
    close = difflib.get_close_matches(key, known, n=1)
    guess = f"; did you mean {close[0]}?" if close else ""
    return f"one of the keys {', '.join(known)}{guess}"


def _model_at(model: type[BaseModel], location: tuple[Key, ...]) -> type[BaseModel]:
    candidates = [model]
    for part in location:
        if isinstance(part, int):
            continue
        if part in TAGS and not any(part in one.model_fields for one in candidates):
            candidates = [one for one in candidates if _has_tag(one, str(part))] or candidates
            continue
        fields = [one.model_fields[part] for one in candidates if part in one.model_fields]
        candidates = [found for field in fields for found in _models(field.annotation)]
    return candidates[0]


def _has_tag(model: type[BaseModel], tag: str) -> bool:
    source = model.model_fields.get("source")
    if source is not None:
        return tag in get_args(source.annotation)
    return (tag == "field") == ("field" in model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
