"""Intervals for figures of clustered data: whole clusters are drawn again, as their members resemble each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics.intervals import Interval


def resampled(
    estimate: Callable[[NDArray[np.intp]], float], clusters: int, seed: int, resamples: int = 400
) -> Interval:
    """Return an estimate with its 95 % percentile bootstrap interval over clusters (Efron 1979).

    The interval is widened to hold the estimate, which a biased resampling distribution can miss.

    Args:
        estimate: of the clusters with these indices, which may repeat; NaN where there is none.
        clusters: how many there are, at least 1.
        seed: of the draws.
        resamples: how many draws.

    Raises:
        ValueError: no clusters, or the estimate of all of them is not finite.
    """
    if clusters < 1:
        raise ValueError("wanted at least one cluster")
    whole = float(estimate(np.arange(clusters)))
    if not np.isfinite(whole):
        raise ValueError(f"the estimate is {whole}, wanted a finite number")
    rng = seeds.generator(seed, "clusters")
    drawn = np.array([estimate(rng.integers(0, clusters, clusters)) for _ in range(resamples)])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [0.025, 0.975]) if drawn.size else (whole, whole)
    return Interval(whole, min(whole, float(low)), max(whole, float(high)))


def ratio(numerators: NDArray[np.float64], denominators: NDArray[np.float64], seed: int) -> Interval:
    """Return sum(numerators) / sum(denominators) with its interval over clusters, both of shape (clusters,).

    Raises:
        ValueError: no clusters, or denominators that add up to nothing.
    """

    def estimate(chosen: NDArray[np.intp]) -> float:
        below = float(denominators[chosen].sum())
        return float(numerators[chosen].sum()) / below if below else float("nan")

    return resampled(estimate, len(denominators), seed)
