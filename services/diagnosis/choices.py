"""Which agents and roles the heads chose, over generations and families."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from services.core.states import CandidateKind, Purpose
from services.core.statistics.intervals import Interval, wilson
from services.core.statistics.resampling import ratio
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Cell, Figure, Section, Table, missing
from services.storage.diagnosis import ChoiceRow

BLOCKS = 12  # lines of the table over generations
Chooses = Callable[[ChoiceRow], bool]


def section(evidence: Evidence) -> Section:
    """Return use over generations, use by family, and the marginal use of every agent and role."""
    trained = [row for row in evidence.choices if row.purpose is Purpose.TRAINING]
    if not evidence.choices:
        return Section("Choices", (missing("use of agents", "no generation has been closed"),))
    measured, what = final(evidence)
    options = named(evidence)
    tables = [by_generation(trained, options)] if trained else []
    tables.append(by_family(measured, options, evidence.seed, what))
    return Section("Choices", marginal(measured, options, evidence.seed, what), tuple(tables))


def named(evidence: Evidence) -> dict[str, Chooses]:
    """Return what can be chosen, by name: every agent, and every role when there are several."""
    options: dict[str, Chooses] = {name: _agent(index) for index, name in enumerate(evidence.agents)}
    roles = evidence.protocol.roles
    return options | ({role.value: _role(role.value) for role in roles} if len(roles) > 1 else {})


def final(evidence: Evidence) -> tuple[list[ChoiceRow], str]:
    """Return the choices nearest to the finished coordinator's: held-out, else validated, else of the last samples."""
    for purpose, what in ((Purpose.EVALUATION, "on held-out problems"), (Purpose.VALIDATION, "at its last validation")):
        rows = [row for row in evidence.choices if row.purpose is purpose and row.kind is CandidateKind.MEAN]
        if rows:
            last = max(row.generation for row in rows)
            return [row for row in rows if row.generation == last], f"the mean {what}"
    last = max(row.generation for row in evidence.choices)
    return [row for row in evidence.choices if row.generation == last], f"the samples of generation {last}"


def marginal(rows: Sequence[ChoiceRow], options: dict[str, Chooses], seed: int, what: str) -> tuple[Figure, ...]:
    turns = sum(row.turns for row in rows)
    return tuple(
        figures.of(f"use of {name}", share(rows, chooses, seed), turns, "turns", f"{what}; interval over problems")
        for name, chooses in options.items()
    )


def by_generation(rows: Sequence[ChoiceRow], options: dict[str, Chooses]) -> Table:
    """Return shares of turns in training, generations taken together so that the table stays short."""
    last = max(row.generation for row in rows)
    size = math.ceil((last + 1) / BLOCKS)
    lines: list[tuple[Cell, ...]] = []
    for start in range(0, last + 1, size):
        block = [row for row in rows if start <= row.generation < start + size]
        turns = sum(row.turns for row in block)
        parts = (sum(row.turns for row in block if chooses(row)) / turns for chooses in options.values())
        end = min(last, start + size - 1)
        lines.append((f"{start}" if start == end else f"{start} to {end}", turns, *parts))
    return Table("Shares of turns in training episodes", ("generation", "turns", *options), tuple(lines))


def by_family(rows: Sequence[ChoiceRow], options: dict[str, Chooses], seed: int, what: str) -> Table:
    families = sorted({row.family for row in rows})
    lines: list[tuple[Cell, ...]] = []
    for family in families:
        own = [row for row in rows if row.family == family]
        cells = (figures.span(share(own, chooses, seed)) for chooses in options.values())
        lines.append((family, sum(row.turns for row in own), len({row.problem for row in own}), *cells))
    return Table(
        f"Shares of turns by family, {what}", ("family", "turns", "problems", *options), tuple(lines),
        "Intervals are 95 %, over problems: the turns of one problem resemble each other.",
    )  # fmt: skip


def agent_shares(rows: Sequence[ChoiceRow], agents: Sequence[str]) -> dict[str, tuple[int, list[float]]]:
    """Return for each family the number of turns and every agent's share of them."""
    found = {}
    for family in sorted({row.family for row in rows}):
        own = [row for row in rows if row.family == family]
        turns = sum(row.turns for row in own)
        parts = [sum(row.turns for row in own if row.agent == index) / turns for index in range(len(agents))]
        found[family] = (turns, parts)
    return found


def share(rows: Sequence[ChoiceRow], chooses: Chooses, seed: int) -> Interval:
    """Return the share of turns that went to an option, with its interval over problems."""
    chosen: dict[int, float] = defaultdict(float)
    turns: dict[int, float] = defaultdict(float)
    for row in rows:
        turns[row.problem] += row.turns
        chosen[row.problem] += row.turns if chooses(row) else 0
    keys = sorted(turns)
    if not any(chosen.values()) or chosen == turns:
        return wilson(len(keys) if chosen == turns else 0, len(keys))  # drawing equal problems again shows no spread
    return ratio(np.array([chosen[key] for key in keys]), np.array([turns[key] for key in keys]), seed)


def _agent(index: int) -> Chooses:
    return lambda row: row.agent == index


def _role(role: str) -> Chooses:
    return lambda row: row.role == role
