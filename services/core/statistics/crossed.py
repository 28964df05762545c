"""Intervals for figures that vary in two ways at once: over repeated trainings and over problems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics.intervals import Interval

RESAMPLES = 2000


def crossed_interval(table: NDArray[np.float64], seed: int, confidence: float = 0.95) -> Interval:
    """Return the mean of all trainings with the percentile interval of the pigeonhole bootstrap (Owen 2007).

    Trainings and problems are drawn anew independently of each other, so that a problem that is easy for all trainings
    and a training that is good at all problems both count as what they are. With few trainings the interval is rough
    and rather too narrow.

    Args:
        table: shape (trainings, problems); NaN where a training has no figure for a problem.
        seed: of the resampling.
        confidence: of the interval.

    Raises:
        ValueError: the shape is another, a figure is infinite, a training has no figure, or a confidence that is none.
    """
    known = ~np.isnan(table)
    if table.ndim != 2 or not table.size or not known.any(axis=1).all() or np.isinf(table).any():
        raise ValueError(
            f"wanted finite figures or NaN of each training, shape (trainings, problems), got {table.shape}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"got confidence {confidence}, wanted a number between 0 and 1")
    trainings, problems = table.shape
    rng = seeds.generator(seed, "crossed bootstrap")
    of_problems = rng.multinomial(problems, np.full(problems, 1 / problems), RESAMPLES)
    of_trainings = rng.multinomial(trainings, np.full(trainings, 1 / trainings), RESAMPLES)
    figures = np.where(known, table, 0.0)
    sums, counts = of_problems @ figures.T, of_problems @ known.T.astype(np.float64)
    weights = np.where(counts > 0, of_trainings, 0)
    means = sums / np.maximum(counts, 1)
    drawn = weights.sum(axis=1) > 0
    found = (weights * means).sum(axis=1)[drawn] / weights.sum(axis=1)[drawn]
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    estimate = float((figures.sum(axis=1) / known.sum(axis=1)).mean())
    return Interval(estimate, float(low), float(high))
