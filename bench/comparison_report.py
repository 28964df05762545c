"""Runs and prints what bench/comparison.py is about."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import comparison_triples as triples
from bench.comparison_learners import Budget, Lesson, train
from bench.comparison_measure import of_chance, of_choices, of_head, of_rival
from bench.comparison_prepared import Prepared, prepare
from bench.comparison_recipes import recipes
from bench.comparison_rivals import BEST_PER_DOMAIN, BEST_SINGLE, rivals
from bench.comparison_set import SETS, read
from bench.comparison_statistics import Entry, Row, rows
from services.config.settings import load_settings

SMALL = {"llmrouter": 150, "zeroeval": 24}
SEEDS = 5
CHANCE = "random model and role"
BOUNDS = ("best model per question", BEST_PER_DOMAIN, triples.NAME)


@dataclass(frozen=True)
class Comparison:
    """One set's comparison.

    Attributes:
        prepared: set and game.
        lessons: one for each seed.
        entries: what was measured, by name.
        table: its rows.
    """

    prepared: Prepared
    lessons: tuple[Lesson, ...]
    entries: dict[str, Entry]
    table: list[Row]

    def to_json(self) -> dict[str, Any]:
        first = self.lessons[0]
        return {
            "questions": len(self.prepared.problems),
            "conversations": len(self.prepared.game.states),
            "training": len(first.training),
            "validation": len(first.validation),
            "heldout": len(first.heldout),
            "seeds": len(self.lessons),
            "rows": [asdict(row) for row in self.table],
        }


def compare(prepared: Prepared, seeds: Sequence[int], budget: Budget) -> Comparison:
    """Train and measure everything under every seed."""
    entries: dict[str, Entry] = {}
    lessons = tuple(prepared.lesson(seed) for seed in seeds)
    for lesson in lessons:
        began = time.process_time()
        _rivals(prepared, lesson, entries)
        _learners(prepared, lesson, entries, budget)
        progress(f"{prepared.recorded.name}, seed {lesson.seed}: {time.process_time() - began:.0f} CPU-s")
    heldout = [lesson.heldout for lesson in lessons]
    return Comparison(
        prepared, lessons, entries, rows(entries, heldout, len(prepared.problems), BEST_SINGLE, BEST_PER_DOMAIN)
    )


def _rivals(prepared: Prepared, lesson: Lesson, entries: dict[str, Entry]) -> None:
    for rival in rivals(lesson, prepared.recorded.models, prepared.same):
        kind = "bound" if rival.name in BOUNDS else "rival"
        entry = entries.setdefault(rival.name, Entry(rival.name, kind, rival.note))
        entry.measured.append(of_rival(prepared, lesson, rival))
        entry.booked.append(rival.booked)
        entry.validation.append(0)
    if prepared.game.turns > 1:
        chance, triple = of_chance(prepared, lesson), of_choices(prepared, lesson, triples.choices(lesson))
        for name, note, measured in ((CHANCE, "at every turn", chance), (triples.NAME, triples.NOTE, triple)):
            entry = entries.setdefault(name, Entry(name, "bound" if name in BOUNDS else "rival", note))
            entry.measured.append(measured)
            entry.booked.append(0)
            entry.validation.append(0)


def _learners(prepared: Prepared, lesson: Lesson, entries: dict[str, Entry], budget: Budget) -> None:
    for recipe in recipes(prepared.game.turns):
        course = train(lesson, recipe, budget)
        entry = entries.setdefault(recipe.name, Entry(recipe.name, "learner", recipe.note))
        entry.measured.append(of_head(prepared, lesson.with_output(recipe.output), course.theta, recipe.turns))
        entry.booked.append(course.episodes)
        entry.validation.append(course.validation_episodes)
        entry.curves.append(course.curve)


def progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def table(comparison: Comparison) -> str:
    """Return the rows as a Markdown table."""
    head = ("policy", "reward", "over best single", "over best per domain", "recovered", "calls", "USD per 1,000")
    lines = [f"| {' | '.join(head)} | episodes booked |", "| --- " * (len(head) + 1) + "|"]
    for row in comparison.table:
        recovered = "" if row.recovered is None else f"{row.recovered:.0%}"
        reward, single, domain = (
            f"{one.estimate:{sign}.3f} [{one.low:{sign}.3f}, {one.high:{sign}.3f}]"
            for one, sign in ((row.reward, ""), (row.over_single, "+"), (row.over_domain, "+"))
        )
        booked = f"{row.booked:,.0f}" + (f" + {row.validation:,.0f}" if row.validation else "")
        lines.append(
            f"| {row.name} | {reward} | {single} | {domain} | {recovered} | {row.calls:.2f} | "
            f"{row.usd_per_1000:.3f} | {booked} |"
        )
    return "\n".join(lines)


def write_csv(found: dict[str, Comparison], file: Path) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        head = [
            "set",
            "policy",
            "kind",
            "reward",
            "low",
            "high",
            "over_single",
            "low",
            "high",
            "over_domain",
            "low",
            "high",
        ]
        writer.writerow(
            [*head, "recovered", "calls", "turns", "usd_per_1000", "episodes", "validation_episodes", "note"]
        )
        for name, one in found.items():
            for row in one.table:
                intervals = [
                    f"{v:.5f}"
                    for i in (row.reward, row.over_single, row.over_domain)
                    for v in (i.estimate, i.low, i.high)
                ]
                rest = [row.recovered, row.calls, row.turns, row.usd_per_1000, row.booked, row.validation, row.note]
                writer.writerow([name, row.name, row.kind, *intervals, *rest])


def draw(found: dict[str, Comparison], folder: Path) -> None:
    from bench.comparison_plots import curves, intervals

    folder.mkdir(parents=True, exist_ok=True)
    for name, one in found.items():
        levels = {}
        for entry in (BEST_SINGLE, BEST_PER_DOMAIN):
            levels[f"{entry}, held out"] = float(np.mean([each.rewards.mean() for each in one.entries[entry].measured]))
        curves(list(one.entries.values()), levels, f"{name}: {len(one.lessons)} seeds", folder / f"{name}-curves.png")
        intervals(one.table, f"{name}: {len(one.lessons)} seeds", folder / f"{name}-intervals.png")


def main(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--full", action="store_true", help="all questions; hours where the states are not at hand")
    parser.add_argument("--questions", type=int, help="of each set, instead of a few or all")
    parser.add_argument("--seeds", type=int, help="2, or 5 with --full")
    parser.add_argument("--episodes", type=int, default=Budget().episodes, help="of training, labels included")
    parser.add_argument("--cache", type=Path, help="folder of states and games; var/comparison")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--plots", type=Path, help="folder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=SyntaxWarning)  # recorded answers are read as Python literals
    settings = load_settings()
    if settings.data_dir is None:
        parser.error("set TRINITY_DATA_DIR to the folder with replay/")
    cache = given.cache or settings.var_dir / "comparison"
    seeds = range(1, 1 + (given.seeds or (SEEDS if given.full else 2)))
    found = {}
    for name in given.sets:
        questions = given.questions or (None if given.full else SMALL[name])
        prepared = prepare(read(name, settings.data_dir), questions, settings.data_dir, settings.models_folder(), cache)
        found[name] = compare(prepared, seeds, Budget(episodes=given.episodes))
    if given.csv:
        write_csv(found, given.csv)
    if given.plots:
        draw(found, given.plots)
    if given.json:
        print(json.dumps({name: one.to_json() for name, one in found.items()}))
    else:
        print("\n\n".join(f"{name}\n\n{table(one)}" for name, one in found.items()))
    return 0
