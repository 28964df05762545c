"""YAML as people expect it: version 1.2 scalars, no key twice, and the line of every value.

PyYAML follows YAML 1.1, where ``no`` is false, ``1e3`` is text, ``12:30`` is 750 and ``010`` is 8; and of two equal
keys it keeps the last. All of these hide mistakes: plain scalars are read by the core schema of YAML 1.2 here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from services.core.errors import SpecError

MAX_BYTES = 1 << 20
MAX_DEPTH = 30

_INT = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = {"", "~", "null", "Null", "NULL"}

Key = str | int


class _Absent:
    """Stands for a value that is not there; error messages show it as ``nothing``."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True)
class Document:
    """A file's top-level mapping and where its values stand."""

    name: str
    value: dict[str, Any]
    lines: dict[tuple[Key, ...], int]

    def where(self, path: Sequence[Key]) -> str:
        """Return ``a.b.0 (file.yaml:12)`` for a path; the line is the nearest one that exists in the file."""
        known = tuple(path)
        while known and known not in self.lines:
            known = known[:-1]
        place = f"{self.name}:{self.lines[known]}" if known in self.lines else self.name
        return f"{'.'.join(str(part) for part in path)} ({place})" if path else place


def read_text(path: Path) -> str:
    """Return the file's text.

    Raises:
        SpecError: it is absent, a folder, too large or not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(str(path), error.strerror or str(error), "a readable YAML file") from error
    if len(data) > MAX_BYTES:
        raise SpecError(str(path), f"{len(data)} bytes", f"a YAML file of at most {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SpecError(f"{path}:{line}", data[error.start : error.start + 1], "UTF-8 text") from error


def parse(text: str, name: str) -> Document:
    """Return the mapping that ``text`` holds; ``name`` stands for the file in messages.

    Raises:
        SpecError: naming file and line, for broken YAML, a key given twice, an alias, a tag, or no mapping at all.
    """
    node = _compose(text, name)
    if not isinstance(node, yaml.MappingNode):
        raise SpecError(name, "an empty file" if node is None else "no mapping", "a mapping with the file's keys")
    lines: dict[tuple[Key, ...], int] = {}
    value = _build(node, (), lines, name)
    return Document(name, value, lines)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        loader = _Loader(text, name)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        raise SpecError(place, error.problem or error.context, "valid YAML") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise SpecError(f"{name}:{line}", chr(error.character), "text without control characters") from error


class _Loader(yaml.BaseLoader):
    """Composes nodes without resolving scalars; refuses aliases and bottomless nesting while it goes."""

    def __init__(self, stream: str, name: str) -> None:
        super().__init__(stream)
        self._name = name
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        assert event.start_mark is not None
        place = f"{self._name}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise SpecError(place, f"*{event.anchor}", "the value itself; aliases are not read")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SpecError(place, f"more than {MAX_DEPTH} levels", "a flatter file")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _build(node: yaml.Node, path: tuple[Key, ...], lines: dict[tuple[Key, ...], int], name: str) -> Any:
    place = f"{name}:{node.start_mark.line + 1}"
    lines.setdefault(path, node.start_mark.line + 1)
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag[18:] not in ("str", "seq", "map"):
        raise SpecError(place, node.tag, "a plain value without a tag")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, name)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, index), lines, name) for index, item in enumerate(node.value)]
    _require_storable(node.value, place)
    quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
    value = node.value if quoted else _scalar(node.value)
    if isinstance(value, float) and math.isinf(value):
        raise SpecError(place, node.value, "a number of ordinary size")
    return value


def _require_storable(text: str, place: str) -> None:
    """Refuse what escape sequences can smuggle into quoted text and what no database stores."""
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise SpecError(place, text, "text without NUL and half surrogates")


def _mapping(
    node: yaml.MappingNode, path: tuple[Key, ...], lines: dict[tuple[Key, ...], int], name: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise SpecError(f"{name}:{line}", "a nested key", "a plain word as key")
        key = key_node.value
        _require_storable(key, f"{name}:{line}")
        if key in found:
            first = lines[(*path, key)]
            raise SpecError(f"{name}:{line}", key, f"each key once; it already stands in line {first}")
        lines[(*path, key)] = line
        found[key] = _build(value_node, (*path, key), lines, name)
    return found


def _scalar(text: str) -> str | int | float | bool | None:
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
