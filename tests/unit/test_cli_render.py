"""How the command line prints figures, tables and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli import render
from services.core.states import CampaignState, EpisodeState


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.000000000000", "$0.00"),
        ("1234.5", "$1,234.50"),
        ("0.1", "$0.10"),
        ("0.0123456", "$0.01235"),
        ("0.000000123456", "$0.0000001235"),
    ],
)
def test_amounts_keep_their_leading_digits(amount: str, text: str) -> None:
    assert render.usd(Decimal(amount)) == text


@given(st.decimals(min_value=Decimal("1e-9"), max_value=Decimal("1e9"), places=12))
def test_a_printed_amount_is_right_to_half_a_cent_or_three_digits(amount: Decimal) -> None:
    printed = Decimal(render.usd(amount).strip("$").replace(",", ""))
    assert abs(printed - amount) <= max(Decimal("0.005") if amount >= Decimal("0.1") else 0, amount * Decimal("0.0005"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3599.6, "1 h 0 min"), (7500, "2 h 5 min")],
)
def test_time_spans(seconds: float, text: str) -> None:
    assert render.duration(seconds) == text


@given(st.lists(st.tuples(st.text(max_size=12), st.integers(), st.none()), min_size=1, max_size=6))
def test_every_row_is_one_line_of_aligned_columns(rows: list[tuple[str, int, None]]) -> None:
    lines = render.table_lines(("name", "number", "nothing"), rows)
    assert len(lines) == 2 + len(rows)
    ends = [len(mark) for mark in lines[1].split("  ")]
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.isprintable()
        assert line[ends[0] + 2 : ends[0] + 2 + ends[1]].strip() == str(row[1])


def test_what_steers_terminals_is_not_printed() -> None:
    assert render.printable("a\x1b[2Jb\nc\u202ed") == "a [2Jb c d"


@dataclass(frozen=True)
class Sample:
    money: Decimal
    at: datetime
    path: Path
    states: dict[EpisodeState, int]
    state: CampaignState


def test_records_become_plain_json() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    sample = Sample(Decimal("0.000000000001"), at, Path("/a"), {EpisodeState.SCORED: 2}, CampaignState.RUNNING)
    document = json.loads(json.dumps(render.plain(sample)))
    assert document == {
        "money": "0.000000000001",
        "at": "2026-01-02T00:00:00+00:00",
        "path": "/a",
        "states": {"scored": 2},
        "state": "running",
    }
