"""How results look: aligned tables for people, one JSON document for programs, progress on stderr."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import typer

NUMBER_COLUMNS = frozenset("0123456789+-.%$")
MISSING = "-"


def say(line: str) -> None:
    """Write a line of progress; stdout stays free for data."""
    typer.echo(line, err=True)


def show(line: str = "") -> None:
    """Write a line of data."""
    typer.echo(line)


def show_json(document: Any) -> None:
    """Write ``document`` as indented JSON: money as strings, times in ISO 8601, records as objects."""
    show(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return ``value`` made of what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if isinstance(value, Path) else value


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, indent: int = 0) -> None:
    """Write rows under their headings; columns of numbers are aligned to the right."""
    for line in table_lines(columns, rows):
        show(" " * indent + line)


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the table as lines: headings, a rule, one line per row."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    right = [bool(cells) and all(is_number(row[at]) for row in cells) for at in range(len(columns))]

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(texts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(columns), "  ".join("-" * width for width in widths), *(line(row) for row in cells)]


def is_number(text: str) -> bool:
    return text == MISSING or (bool(text) and text[0] in NUMBER_COLUMNS)


def printable(value: object) -> str:
    """Return one line of text without control characters, which come from files and models and steer terminals."""
    text = MISSING if value is None else str(value)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def figure(value: float | None, digits: int = 3) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"


def usd(value: Decimal | None) -> str:
    """Return an amount with cents, or with four significant digits when it is smaller than ten cents."""
    if value is None:
        return MISSING
    if value == 0 or abs(value) >= Decimal("0.1"):
        return f"${value:,.2f}"
    return f"${value:.{3 - value.adjusted()}f}"


def share(value: float) -> str:
    return f"{100 * value:.0f}%"


def moment(value: datetime | None) -> str:
    return MISSING if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """Return a time span as people say it: ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    whole = timedelta(seconds=round(seconds))
    minutes, rest = divmod(int(whole.total_seconds()), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
