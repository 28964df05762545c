"""Lines of a JSONL file and the fields in them, with file and line in every complaint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.core.errors import SpecError

LONGEST_LINE = 16 << 20
SHOWN = 60


@dataclass(frozen=True)
class Line:
    """One line's object and where it stands, as ``file:number``."""

    path: Path
    number: int
    value: Mapping[str, Any]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.number}"

    def field(self, dotted: str) -> Any:
        """Return the value at a dotted path; None when it is null.

        Raises:
            SpecError: the line has no such field; names the fields it has.
        """
        found = lookup(self.value, dotted)
        if found is MISSING:
            raise SpecError(self.place, f"the fields {', '.join(self.value)}", f"a field {dotted}")
        return found


MISSING = object()


def lookup(value: Any, dotted: str) -> Any:
    """Return what stands at a dotted path, or MISSING. A key that itself contains dots is found as well."""
    if isinstance(value, Mapping) and dotted in value:
        return value[dotted]
    parts = dotted.split(".")
    for size in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:size])
        if isinstance(value, Mapping) and key in value:
            found = lookup(value[key], ".".join(parts[size:]))
            if found is not MISSING:
                return found
    return MISSING


def read(path: Path, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Yield the objects of a file; blank lines are skipped.

    Args:
        path: the file.
        longest: most bytes of one line.

    Raises:
        SpecError: the file cannot be read, or a line is not a JSON object in UTF-8.
    """
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if raw.strip():
                    yield Line(path, number, _object(raw, f"{path}:{number}", longest))
    except OSError as error:
        raise SpecError(str(path), error.strerror or str(error), "a readable JSONL file") from error


def _object(raw: bytes, place: str, longest: int) -> Mapping[str, Any]:
    if len(raw) > longest:
        raise SpecError(place, f"{len(raw)} bytes", f"a line of at most {longest} bytes")
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SpecError(place, raw[error.start : error.start + 1], "UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise SpecError(place, shown(raw.decode(errors="replace")), f"a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise SpecError(place, shown(value), "a JSON object")
    return value


def shown(value: object) -> object:
    """Return the value, cut for a message."""
    if isinstance(value, str):
        return value.strip() if len(value) <= SHOWN else value[:SHOWN].strip() + " ..."
    text = repr(value)
    return value if len(text) <= SHOWN else text[:SHOWN] + " ..."
