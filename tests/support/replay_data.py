"""Recorded rewards of real models, where the folder with them is at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.core.statistics.outcome_table import Answered, OutcomeTable, tabulate

FILES = ("zeroeval_gsm_a", "zeroeval_gsm_b", "zeroeval_crux", "zeroeval_math_l5")


def folder() -> Path:
    """Return the folder with the recordings, or skip the test."""
    found = Path(os.environ.get("TRINITY_DATA_DIR") or Path(__file__).parents[3] / "shared" / "data") / "replay"
    if not (found / "models29.jsonl").is_file():
        pytest.skip(f"no recordings in {found}; set TRINITY_DATA_DIR")
    return found


def llmrouter() -> OutcomeTable:
    """Return the scores of nine models on seven tasks."""
    rows = [row for part in ("code_logic", "math_knowledge_text") for row in _rows(f"llmrouter_{part}")]
    return _table(Answered(row["id"], row["task_name"], *score) for row in rows for score in row["scores"].items())


def zeroeval(models: int) -> OutcomeTable:
    """Return whether the first so many of twelve models were right, in three domains."""
    return _table(
        Answered(row["id"], row["domain"], model, float(given["correct"]))
        for name in FILES
        for row in _rows(name)
        for model, given in list(row["responses"].items())[:models]
    )


def zeroeval29() -> OutcomeTable:
    """Return whether 29 models were right, in three domains."""
    names = [row["model"] for row in _rows("models29")]
    return _table(
        Answered(row["id"], row["domain"], model, float(digit))
        for name in FILES
        for row in _rows(name)
        for model, digit in zip(names, row["correct29"], strict=True)
    )


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder() / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _table(answers: Iterator[Answered]) -> OutcomeTable:
    found = list(answers)
    return tabulate(found, tuple(dict.fromkeys(each.model for each in found))).table
