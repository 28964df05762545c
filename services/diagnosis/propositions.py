"""Proposition 1 against what happened: the strategy's gain over that of random search with as many episodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics import attenuation, theory
from services.core.statistics.answer_table import AnswerTable, Matrix
from services.core.statistics.variance import Components
from services.diagnosis import figures, noise
from services.diagnosis.evidence import Evidence
from services.diagnosis.noise import TRIALS_EACH, Noise
from services.diagnosis.table import Tables, head_of
from services.reports.diagnosis import Figure, Section, missing

TITLE = "Proposition 1"
PREDICTED, MEASURED = "predicted gain over random search", "measured gain over random search"
BAND = 0.5  # the paper's random search draws from U[-0.5, 0.5]^n
REPEATS = 20
NO_SEARCH = "no random search has been run, and it cannot be simulated: "


def section(evidence: Evidence, found: Noise | None, tables: Tables | None, why_no_table: str) -> Section:
    if found is None:
        return Section(TITLE, (missing(PREDICTED, noise.TOO_SMALL), missing(MEASURED, noise.TOO_SMALL)))
    measured = (missing(MEASURED, NO_SEARCH + why_no_table),) if tables is None else _measured(evidence, tables)
    return Section(TITLE, (_predicted(evidence, found), *measured))


def _predicted(evidence: Evidence, found: Noise) -> Figure:
    told, trials = evidence.generations, noise.trials_of(evidence)
    kappa_bar = attenuation.quality_gain(evidence.search.population, evidence.seed)[1]
    remark = (
        f"(kappa-bar/2) T / ln N eta^2 with kappa-bar = {kappa_bar:.1f}, T = {told}, N = {trials:,}; "
        "a lower bound up to an unknown constant C / ln N"
    )

    def ratio(components: Components) -> float:
        return theory.gain_ratio(kappa_bar, told, trials, noise.eta(evidence, components))

    return noise.between_ends(PREDICTED, ratio, found, remark)


def _measured(evidence: Evidence, tables: Tables) -> tuple[Figure, ...]:
    """Return both gains on held-out questions and their ratio; random search is simulated on the answer table."""
    if not len(tables.heldout.states) or not len(tables.training.states):
        return (missing(MEASURED, "needs training and held-out questions"),)
    trials = noise.trials_of(evidence)
    start = tables.heldout.values(head_of(evidence, evidence.trace.means[0]))
    trained = tables.heldout.values(evidence.head) - start
    best = [
        tables.heldout.values(random_search(tables.training, evidence.head.shape, trials, evidence.seed, repeat))
        for repeat in range(REPEATS)
    ]
    rival = np.mean(best, axis=0) - start
    n, seed = len(start), evidence.seed
    gains = [
        figures.clustered(name, _mean_of(values), n, seed, "questions", remark)
        for name, values, remark in (
            ("gain of the strategy", trained, "held-out, exact J"),
            ("gain of random search", rival, f"best of {trials:,} vectors, mean of {REPEATS} simulated searches"),
        )
    ]
    return (*gains, _ratio(trained, rival, gains[1], seed))


def _ratio(trained: NDArray[np.float64], rival: NDArray[np.float64], below: Figure, seed: int) -> Figure:
    if below.low is None or below.low <= 0:
        return missing(MEASURED, "random search's gain is not clearly above 0, so the ratio has no bounds")

    def estimate(chosen: NDArray[np.intp]) -> float:
        return float(trained[chosen].mean() / rival[chosen].mean())

    return figures.clustered(MEASURED, estimate, len(trained), seed, "questions", "(J_T - J_0) / (J_RS - J_0)")


def _mean_of(values: NDArray[np.float64]) -> Callable[[NDArray[np.intp]], float]:
    return lambda chosen: float(values[chosen].mean())


def random_search(table: AnswerTable, shape: tuple[int, ...], trials: int, seed: int, repeat: int) -> Matrix:
    """Return the best of ``trials`` vectors, each judged by 32 sampled answers to random questions (paper, A.5)."""
    rng = seeds.generator(seed, "random search", repeat)
    best, best_value = np.zeros(shape), -np.inf
    for _ in range(trials):
        weights = rng.uniform(-BAND, BAND, shape)
        asked = rng.integers(0, len(table.states), TRIALS_EACH)
        part = table.rows(asked)
        value = float(part.sampled(weights, rng).mean())
        if value > best_value:
            best, best_value = weights, value
    return best
