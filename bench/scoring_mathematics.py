"""Our mathematics scorer and math-verify alone on the same answers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from math_verify import parse, verify

from services.core.scoring.mathematics import grade_mathematics
from services.symbolic.pool import SymbolicPool

LABELLED = Path(__file__).resolve().parents[1] / "tests" / "data" / "mathematics_pairs.jsonl"
EVERY = 8


@dataclass(frozen=True)
class Item:
    reference: str
    answer: str
    correct: bool


@dataclass(frozen=True)
class Run:
    """Wall seconds of each verdict, and how many were as labelled."""

    seconds: tuple[float, ...]
    right: int

    @property
    def per_second(self) -> float:
        return len(self.seconds) / sum(self.seconds)

    def quantile(self, share: float) -> float:
        """Return the milliseconds within which this share of the verdicts was there."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] * 1000


def measure_mathematics(data: Path, full: bool) -> dict[str, Any]:
    """Return verdicts per second, 99th percentiles and agreement of both sides, and their ratio."""
    logging.disable(logging.CRITICAL)  # math-verify logs each of its timeouts
    labelled = [Item(row["reference"], row["answer"], row["equal"]) for row in rows(LABELLED)]
    real = [*recorded(data, 1 if full else EVERY), *solutions(data)]
    result: dict[str, Any] = {"real_answers": len(real), "labelled_pairs": len(labelled)}
    with SymbolicPool(1) as pool:
        pool.equal("x+1", "1+x")
        alone("1", r"\boxed{1}")
        for name, items in (("", real), ("labelled_", labelled)):
            if items:
                ours = timed(items, lambda reference, answer: grade_mathematics(reference, answer, pool).reward == 1.0)
                theirs = timed(items, alone)
                result |= figures(name, ours, theirs)
    return result | {"math_verify": version("math-verify"), "sympy": version("sympy")}


def figures(name: str, ours: Run, theirs: Run) -> dict[str, Any]:
    found: dict[str, Any] = {f"maths_{name}ratio_vs_math_verify": round(ours.per_second / theirs.per_second, 1)}
    for side, run in (("maths", ours), ("math_verify", theirs)):
        found |= {
            f"{side}_{name}verdicts_per_s": round(run.per_second, 1),
            f"{side}_{name}p50_ms": round(run.quantile(0.5), 2),
            f"{side}_{name}p99_ms": round(run.quantile(0.99), 1),
            f"{side}_{name}agreement": f"{run.right}/{len(run.seconds)}",
        }
    return found


def timed(items: Sequence[Item], verdict: Callable[[str, str], bool]) -> Run:
    seconds, right = [], 0
    for item in items:
        begun = time.perf_counter()
        found = verdict(item.reference, item.answer)
        seconds.append(time.perf_counter() - begun)
        right += found is item.correct
    return Run(tuple(seconds), right)


def alone(reference: str, answer: str) -> bool:
    """Return math-verify's own verdict, as its documentation shows its use; a bare answer is marked as mathematics."""
    marked = answer if any(mark in answer for mark in ("$", r"\boxed", r"\[", r"\(")) else f"${answer}$"
    return bool(verify(parse(f"${reference}$"), parse(marked)))


def recorded(data: Path, every: int) -> list[Item]:
    """Return recorded final answers in a box, which both sides find, with the scores recorded for them."""
    path = data / "replay" / "zeroeval_math_l5.jsonl"
    if not path.is_file():
        return []
    found = [
        Item(row["gold"], rf"\boxed{{{one['answer']}}}", one["correct"] == 1)
        for row in rows(path)
        for one in row["responses"].values()
        if one["answer"] is not None
    ]
    return found[::every]


def solutions(data: Path) -> list[Item]:
    path = data / "math500" / "test.jsonl"
    return [Item(row["answer"], row["solution"], True) for row in rows(path)] if path.is_file() else []


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
