"""What the states look like, family by family, and whether a line tells the families apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.policy.policies import HeadPolicy
from services.core.problem import Problem
from services.core.protocol.transcript import Transcript
from services.core.statistics import geometry
from services.core.statistics.intervals import Interval, mean_interval, wilson
from services.diagnosis import figures
from services.diagnosis.classify import classify
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Cell, Figure, Section, Table, missing

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Read:
    """Questions as the encoder reads them before any turn, and what the diagnosed vector makes of them.

    Attributes:
        states: shape (questions, d).
        logits: shape (questions, rows): the agents' first, then the roles'.
    """

    families: tuple[str, ...]
    states: Matrix
    logits: Matrix


def read(evidence: Evidence, problems: Sequence[Problem], states: Matrix) -> Read:
    """Apply the diagnosed vector's head to the states of questions."""
    found = []
    rng = np.random.default_rng(0)
    for problem, state in zip(problems, states, strict=True):
        policy = HeadPolicy(evidence.theta, evidence.layout, _always(state.astype(np.float32)))
        found.append(policy.decide(Transcript(problem.question), rng).logits)
    return Read(tuple(problem.family for problem in problems), states, np.array(found, dtype=np.float64))


def _always(state: NDArray[np.float32]) -> Callable[[Transcript, NDArray[np.float32]], NDArray[np.float32]]:
    return lambda transcript, offsets: state


def separability(found: Read, seed: int) -> Section:
    """Accuracy of a linear classifier of families, from states and from logits."""
    shown, tables = [], []
    for source, features in (("states", found.states), ("logits", found.logits)):
        outcome = classify(features, found.families, seed)
        name = f"accuracy from the {source}"
        if isinstance(outcome, str):
            shown.append(missing(name, outcome))
            continue
        remark = f"chance {outcome.chance:.3f} (largest of {outcome.classes} families), {outcome.folds} folds"
        shown.append(figures.of(name, wilson(outcome.right, outcome.n), outcome.n, "questions", remark))
        rows = tuple(
            (family, size, figures.span(wilson(right, size))) for family, (right, size) in outcome.recall.items()
        )
        tables.append(Table(f"Recognised from the {source}", ("family", "n", "recognised (95 %)"), rows))
    return Section("Separability of families by a linear SVM", tuple(shown), tuple(tables))


def shape(found: Read, evidence: Evidence, seed: int) -> Section:
    """Lengths, common part, spread of logits and entropies, per family and in all."""
    names = sorted(set(found.families))
    groups = [("all", np.ones(len(found.families), dtype=bool))]
    if len(names) > 1:
        groups += [(name, np.array([family == name for family in found.families])) for name in names]
    agents, roles = len(evidence.layout.agents), evidence.layout.role_rows
    columns = (
        "family", "n", "norm: quartile", "median", "quartile", "mean cosine (95 %)", "sd of agent logits",
        "entropy of agents (95 %)", "entropy of roles (95 %)",
    )  # fmt: skip
    rows = tuple(_row(name, found.states[chosen], found.logits[chosen], agents, roles, seed) for name, chosen in groups)
    uniform = f"a uniform choice has {math.log(agents):.3f}" + (f" and {math.log(roles):.3f}" if roles else "")
    table = Table("States of questions before any turn", columns, rows, f"Entropies in nats; {uniform}.")
    return Section("States and logits", _figures(found, agents, seed), (table,))


def _figures(found: Read, agents: int, seed: int) -> tuple[Figure, ...]:
    n = len(found.states)
    if n < 2:
        return (missing("mean cosine", f"{n} questions, two are needed"),)
    lengths = np.linalg.norm(found.states, axis=1)
    return (
        figures.of("mean cosine of two states", geometry.mean_cosine(found.states, seed), n, "questions"),
        figures.clustered("median norm", lambda chosen: float(np.median(lengths[chosen])), n, seed, "questions"),
        figures.of("entropy of the agent softmax", _entropy(found.logits[:, :agents], seed), n, "questions"),
    )


def _row(name: str, states: Matrix, logits: Matrix, agents: int, roles: int, seed: int) -> tuple[Cell, ...]:
    quartiles = np.quantile(np.linalg.norm(states, axis=1), [0.25, 0.5, 0.75])
    return (
        name,
        len(states),
        *(float(value) for value in quartiles),
        figures.span(geometry.mean_cosine(states, seed)) if len(states) > 1 else None,
        float(logits[:, :agents].std(axis=1).mean()),
        figures.span(_entropy(logits[:, :agents], seed)),
        figures.span(_entropy(logits[:, agents:], seed)) if roles else None,
    )


def _entropy(logits: Matrix, seed: int) -> Interval:
    return mean_interval(geometry.entropies(logits).tolist(), seed)
