"""Exact figures over recorded answers: objective, gradient, curvature, coupling of the head's rows, other heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.problem import Problem, Split
from services.core.statistics import head_fit
from services.core.statistics.answer_table import AnswerTable, Matrix
from services.core.statistics.intervals import Interval, mean_interval, paired_difference
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Cell, Figure, Section, Table, missing

TITLE = "Objective over recorded answers"


@dataclass(frozen=True)
class Tables:
    """Answer tables by split, questions in the order of ``problems``."""

    training: AnswerTable
    validation: AnswerTable
    heldout: AnswerTable


def build(
    evidence: Evidence, problems: Mapping[Split, Sequence[Problem]], states_of: Callable[[Sequence[Problem]], Matrix]
) -> Tables:
    """Return the tables of these problems; only for evidence that has no reason against it (``no_table``)."""
    names = [evidence.agents[index] for index in evidence.layout.agents]

    def one(split: Split) -> AnswerTable:
        rewards = np.array([[problem.scores[name] for name in names] for problem in problems[split]])
        return AnswerTable(states_of(problems[split]), rewards.reshape(-1, len(names)))

    return Tables(one(Split.TRAINING), one(Split.VALIDATION), one(Split.HELDOUT))


def section(evidence: Evidence, tables: Tables) -> Section:
    """Return exact J before and after, on fixed questions, with the gradient's length and the curvature along it."""
    start, end = head_of(evidence, evidence.trace.means[0] if evidence.trace.means else None), evidence.head
    shown: list[Figure] = []
    for name, table in (("held-out", tables.heldout), ("training", tables.training)):
        shown += _values(f"{name} questions", table, start, end, evidence.seed)
    for place, weights in (("the start", start), ("the diagnosed vector", end)):
        shown += _slopes(place, tables.training, weights, evidence.seed)
    return Section(TITLE, tuple(shown), (curve(evidence, tables.heldout),) if evidence.trace.means else ())


def head_of(evidence: Evidence, theta: NDArray[np.float64] | None) -> Matrix:
    """Return a vector's head as the policy acts on it, in single precision; zero without a vector."""
    if theta is None:
        return np.zeros((evidence.layout.rows, evidence.layout.hidden))
    rows = evidence.layout.split(theta)["head"].reshape(evidence.layout.rows, -1)
    return rows.astype(np.float32).astype(np.float64)


def curve(evidence: Evidence, table: AnswerTable) -> Table:
    """Return J of every generation's mean on the held-out questions."""
    rows = []
    for number, mean in enumerate(evidence.trace.means):
        found = mean_interval(table.values(head_of(evidence, mean)).tolist(), evidence.seed, resamples=500)
        rows.append((number, len(table.states), found.estimate, found.low, found.high))
    return Table(
        "J of the search's mean on held-out questions", ("generations told", "n", "J", "low", "high"), tuple(rows),
        "Exact: the expected reward over the head's softmax, no sampling; intervals over questions.",
    )  # fmt: skip


def _values(where: str, table: AnswerTable, start: Matrix, end: Matrix, seed: int) -> list[Figure]:
    n = len(table.states)
    if not n:
        return [missing(f"J on {where}", "the campaign has none")]
    before, after = table.values(start), table.values(end)
    return [
        figures.of(f"J at the start, {where}", mean_interval(before.tolist(), seed), n, "questions"),
        figures.of(f"J of the diagnosed vector, {where}", mean_interval(after.tolist(), seed), n, "questions"),
        figures.of(f"gain, {where}", paired_difference(after.tolist(), before.tolist(), seed), n, "questions"),
    ]


def _slopes(place: str, table: AnswerTable, weights: Matrix, seed: int) -> list[Figure]:
    n = len(table.states)
    slope = table.gradient(weights)
    length = float(np.linalg.norm(slope))
    if not length:
        return [missing(f"length of the gradient at {place}", "the gradient is zero there")]
    unit = slope / length
    along = float((unit * table.hessian_product(weights, unit)).sum())
    remark = "second derivative of J per unit length; above 0: J bends upwards, far from a maximum"
    return [
        Figure(f"length of the gradient at {place}", length, n=n, of="questions", remark="training questions"),
        Figure(f"curvature along it at {place}", along, n=n, of="questions", remark=remark),
    ]


def heads(evidence: Evidence, tables: Tables) -> Section:
    """Return the head-level test: linear against block-diagonal with one block per logit, trained alike."""
    title = "Head-level test"
    sizes = [len(table.states) for table in (tables.training, tables.validation, tables.heldout)]
    if min(sizes) < 2:
        return Section(title, (missing("linear head", "needs questions of all three splits"),))
    training, validation, heldout = standardised(tables)
    shape = (training.agents, training.states.shape[1])
    values: dict[str, NDArray[np.float64]] = {}
    rows: list[tuple[Cell, ...]] = []
    masks = {"linear": np.ones(shape), "block-diagonal, one block per logit": head_fit.block_mask(*shape)}
    for name, mask in masks.items():
        fitted = head_fit.fit(training, validation, mask)
        values[name] = heldout.values(fitted.weights)
        picked = mean_interval(heldout.choices(fitted.weights).tolist(), evidence.seed)
        found = mean_interval(values[name].tolist(), evidence.seed)
        rows.append((name, int(mask.sum()), fitted.iteration, sizes[2], figures.span(found), figures.span(picked)))
    rows += _yardsticks(training, heldout, evidence)
    linear, blocks = values.values()
    difference = paired_difference(linear.tolist(), blocks.tolist(), evidence.seed)
    return Section(
        title,
        (
            figures.of(
                "linear minus block-diagonal, J", difference, sizes[2], "questions",
                "held-out; both by gradient from zero on standardised states, stopped by the validation questions",
            ),
        ),
        (
            Table(
                "Heads trained on the answer table", ("head", "weights", "steps", "n", "J (95 %)", "argmax (95 %)"),
                tuple(rows), f"Trained on {sizes[0]} questions, chosen on {sizes[1]}, judged on {sizes[2]}.",
            ),
        ),
    )  # fmt: skip


def _yardsticks(training: AnswerTable, heldout: AnswerTable, evidence: Evidence) -> list[tuple[Cell, ...]]:
    best = int(training.rewards.mean(axis=0).argmax())
    name = evidence.agents[evidence.layout.agents[best]]
    found: list[tuple[str, NDArray[np.float64]]] = [
        (f"{name} alone (best in training)", heldout.rewards[:, best]),
        ("best model of each question (oracle)", heldout.rewards.max(axis=1)),
    ]
    return [
        (label, None, None, len(rewards), figures.span(_mean(rewards, evidence.seed)), None) for label, rewards in found
    ]


def _mean(values: NDArray[np.float64], seed: int) -> Interval:
    return mean_interval(values.tolist(), seed)


def standardised(tables: Tables) -> tuple[AnswerTable, AnswerTable, AnswerTable]:
    """Return the tables with states centred and scaled by the training questions', so that one step size fits all."""
    centre = tables.training.states.mean(axis=0)
    scale = tables.training.states.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    training, validation, heldout = (
        AnswerTable((table.states - centre) / scale, table.rewards)
        for table in (tables.training, tables.validation, tables.heldout)
    )
    return training, validation, heldout
