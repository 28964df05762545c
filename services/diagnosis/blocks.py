"""Separability of the head's rows (paper, definition 1), measured on the answer table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics import separability
from services.core.statistics.answer_table import AnswerTable, Matrix
from services.core.statistics.resampling import resampled
from services.core.statistics.separability import Coupling, coupling
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Cell, Figure, Section, Table, missing

TITLE = "Coupling of the head's rows (epsilon_H)"
RANDOM_SETS = 20
WANTED = "of the Hessian of -J; the definition wants none"
RESAMPLES = 200
MEASURES = {"spectral": "epsilon_H, B1", "pairwise": "epsilon_H, B2", "row": "epsilon_H, B3"}
Reduced = NDArray[np.float64]  # one set of directions: (questions, blocks, blocks)


def section(evidence: Evidence, table: AnswerTable, weights: Matrix, where: str) -> Section:
    """Return the three measures over several sets of directions, and where the definition holds at all."""
    title = f"{TITLE} {where}"
    n = len(table.states)
    if table.agents < 2 or n < 2:
        return Section(title, (missing("epsilon_H", f"{table.agents} blocks over {n} questions; two are needed"),))
    shape = (table.agents, table.states.shape[1])
    sets = [separability.reduced_by_question(table, weights, table.gradient(weights))]
    sets += [
        separability.reduced_by_question(table, weights, separability.random_directions(shape, evidence.seed, number))
        for number in range(RANDOM_SETS)
    ]
    own = sets[0].mean(axis=0)
    return Section(
        title,
        (*_definite(evidence, table, weights, sets), *_measures(evidence, sets), _full(evidence, table, weights)),
        (_pairs(evidence, sets[0], own),),
    )


def _definite(evidence: Evidence, table: AnswerTable, weights: Matrix, sets: list[Reduced]) -> list[Figure]:
    n = len(table.states)
    coordinates = separability.coordinate_diagonal(table, weights)
    both = [("each row's own gradient", sets[0]), ("random directions", np.concatenate(sets[1:], axis=2))]
    found = [
        resampled_share(f"share of negative diagonals, {name}", reduced, evidence.seed, n) for name, reduced in both
    ]
    share = float((coordinates <= 0).mean())
    name = "share of negative diagonals, single coordinates"
    return [*found, Figure(name, share, n=n, of="questions", remark=WANTED)]


def resampled_share(name: str, reduced: Reduced, seed: int, n: int) -> Figure:
    """Return the share of diagonal entries at or below zero; sets of directions lie side by side in the last axis."""
    blocks = reduced.shape[1]
    own = np.concatenate(
        [np.diagonal(part, axis1=1, axis2=2) for part in np.split(reduced, reduced.shape[2] // blocks, axis=2)], axis=1
    )
    found = resampled(lambda chosen: float((own[chosen].mean(axis=0) <= 0).mean()), n, seed, RESAMPLES)
    return figures.of(name, found, n, "questions", WANTED)


def _measures(evidence: Evidence, sets: list[Reduced]) -> list[Figure]:
    """Return median and largest value of each measure over the sets for which it is defined, if those are most."""
    n, found = len(sets[0]), []
    whole = [coupling(each.mean(axis=0)) for each in sets]
    valid = [at for at, each in enumerate(whole) if not each.negative]
    if 2 * len(valid) < len(sets):
        reason = f"not applicable: {len(sets) - len(valid)} of {len(sets)} sets of directions meet a negative diagonal"
        return [missing(name, reason) for name in MEASURES.values()]
    drawn = _resampled_couplings([sets[at] for at in valid], evidence.seed)
    for field, name in MEASURES.items():
        values = [getattr(whole[at], field) for at in valid]
        for label, summary in (("median", np.median), ("largest", np.max)):
            spread = [float(summary(each[field])) for each in drawn if each[field]]
            value = float(summary(values))
            low, high = np.quantile(spread, [0.025, 0.975]) if spread else (value, value)
            remark = f"{len(valid)} of {len(sets)} sets of directions have positive diagonals"
            if field == "row":
                remark += "; below 1 is wanted"
            found.append(
                Figure(
                    f"{name}, {label}", value, min(value, float(low)), max(value, float(high)), n, "questions", remark
                )
            )
    return found


def _resampled_couplings(sets: list[Reduced], seed: int) -> list[dict[str, list[float]]]:
    """Return the measures on questions drawn again, each a list over the sets for which they are defined."""
    rng = seeds.generator(seed, "couplings")
    n = len(sets[0])
    drawn = []
    for _ in range(RESAMPLES):
        counts = rng.multinomial(n, np.full(n, 1 / n)) / n
        each = [coupling(np.tensordot(counts, reduced, axes=1)) for reduced in sets]
        drawn.append({field: _defined(each, field) for field in MEASURES})
    return drawn


def _defined(found: list[Coupling], field: str) -> list[float]:
    return [getattr(each, field) for each in found if not each.negative]


def _full(evidence: Evidence, table: AnswerTable, weights: Matrix) -> Figure:
    name = "epsilon_H, B1 over all coordinates"
    found = separability.full_spectral(table, weights, evidence.seed)
    if found is None:
        return missing(name, "not applicable: some coordinates have a negative diagonal")
    return Figure(name, found, n=len(table.states), of="questions", remark="power iteration, from below")


def _pairs(evidence: Evidence, reduced: Reduced, whole: Matrix) -> Table:
    """Return the pairwise measure between rows along their own gradients."""
    names = [evidence.agents[index] for index in evidence.layout.agents]
    rows: list[tuple[Cell, ...]] = []
    for one in range(len(names)):
        for other in range(one + 1, len(names)):
            scale = whole[one, one] * whole[other, other]
            both = whole[one, one] > 0 and whole[other, other] > 0
            value = abs(float(whole[one, other])) / float(np.sqrt(scale)) if both else "not applicable"
            curved = (float(whole[one, one]), float(whole[other, other]))
            rows.append((names[one], names[other], len(reduced), *curved, float(whole[one, other]), value))
    return Table(
        "Pairs of rows along their own gradients", ("row b", "row c", "n", "C_bb", "C_cc", "C_bc", "B2"), tuple(rows),
        "C = d' H d with H the Hessian of -J. A softmax does not change when one vector is added to all rows, "
        "so the rows of a head are coupled by construction.",
    )  # fmt: skip
