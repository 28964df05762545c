"""The labelled sets of tests/data, and graders for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.symbolic.pool import SymbolicPool

DATA = Path(__file__).resolve().parents[1] / "data"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Pair:
    reference: str
    answer: str
    equal: bool
    note: str


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def labelled_pairs() -> list[Pair]:
    return [Pair(**row) for row in read_rows(DATA / "mathematics_pairs.jsonl")]


def shared_data() -> Path:
    folder = Path(os.environ.get("TRINITY_DATA_DIR") or ROOT.parent / "shared" / "data")
    if not (folder / "replay").is_dir():
        pytest.skip(f"no recordings in {folder}; set TRINITY_DATA_DIR")
    return folder.resolve()


@pytest.fixture(scope="session")
def symbolic() -> Iterator[SymbolicPool]:
    with SymbolicPool(2) as pool:
        yield pool
