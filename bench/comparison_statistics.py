"""Means over seeds and held-out questions, with intervals that respect both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.comparison_game import Float64, Indices
from services.core import seeds
from services.core.statistics.intervals import Interval

RESAMPLES = 2000


def interval(values: Sequence[Float64], questions: Sequence[Indices], seed: int = 0) -> Interval:
    """Return the mean over seeds of the means over questions, with its 95 % percentile bootstrap interval.

    A question can be held out under several seeds, so questions are drawn again as clusters, the same for all seeds,
    and seeds are drawn again as well. An interval over paired differences is one over their values.

    Args:
        values: for every seed, one number for each held-out question.
        questions: for every seed, their numbers.
        seed: of the draws.
    """
    count = 1 + max(int(chosen.max()) for chosen in questions)
    sums, present = np.zeros((len(values), count)), np.zeros((len(values), count))
    for row, (found, chosen) in enumerate(zip(values, questions, strict=True)):
        sums[row, chosen], present[row, chosen] = found, 1
    rng = seeds.generator(seed, "comparison", "bootstrap")
    used = np.flatnonzero(present.any(axis=0))
    means = []
    for _ in range(RESAMPLES):
        weights = np.bincount(rng.choice(used, len(used)), minlength=count)
        rows = rng.integers(0, len(values), len(values))
        means.append(np.mean((sums[rows] @ weights) / (present[rows] @ weights)))
    low, high = np.quantile(means, [0.025, 0.975])
    whole = float(np.mean([found.mean() for found in values]))
    return Interval(whole, min(whole, float(low)), max(whole, float(high)))
