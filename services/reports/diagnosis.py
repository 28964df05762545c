"""A diagnosis as plain figures: what was found, how sure it is, and why something could not be estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Cell = str | int | float | None


@dataclass(frozen=True)
class Figure:
    """One number with its sample size, or the reason why there is none.

    Attributes:
        name: what it is.
        value: the estimate; None when it cannot be had.
        low, high: its 95 % interval; None for exact figures.
        n: sample size; None when there is no value.
        of: what ``n`` counts.
        remark: why there is no value, or what to compare it with.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    of: str = ""
    remark: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != (self.n is None):
            raise ValueError(f"{self.name}: a value comes with its sample size, and only a value does")
        if self.value is None and not self.remark:
            raise ValueError(f"{self.name}: a missing value comes with its reason")
        if any(part is not None and not math.isfinite(part) for part in (self.value, self.low, self.high)):
            raise ValueError(f"{self.name}: {self.value} ({self.low} to {self.high}) is not finite")

    @property
    def span(self) -> str:
        return "" if self.low is None or self.high is None else f"{shown(self.low)} to {shown(self.high)}"

    @property
    def size(self) -> str:
        return "" if self.n is None else f"{self.n:,} {self.of}"


@dataclass(frozen=True)
class Table:
    """Rows under their headings; ``remark`` says how to read them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    remark: str = ""


@dataclass(frozen=True)
class Section:
    title: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Everything about one subject; ``plots`` are the names of the files beside the page."""

    subject: str
    vector: str
    sections: tuple[Section, ...]
    plots: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data that ``from_json`` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Diagnosis:
        sections = tuple(
            Section(
                each["title"],
                tuple(Figure(**figure) for figure in each["figures"]),
                tuple(
                    Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])), table["remark"])
                    for table in each["tables"]
                ),
            )
            for each in data["sections"]
        )
        return cls(data["subject"], data["vector"], sections, tuple(data["plots"]))


def missing(name: str, reason: str) -> Figure:
    """Return the place of a figure that cannot be had, with the reason."""
    return Figure(name, None, remark=reason)


def shown(value: Cell) -> str:
    """Return a cell as text: whole numbers with separators, others with three digits that count."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.2e}"
