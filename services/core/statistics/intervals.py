"""Intervals for rates, means and paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from services.core import seeds

_CHUNK_NUMBERS = 2_000_000  # resampled values held at once


@dataclass(frozen=True)
class Interval:
    """An estimate with its lower and upper confidence limit."""

    estimate: float
    low: float
    high: float


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return a rate with Wilson's score interval (Wilson 1927), which stays inside [0, 1] and is honest at 0 and n.

    Raises:
        ValueError: no trials, or successes outside 0 to n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(
            f"got {successes} successes of {n} trials, wanted 0 <= successes <= trials and a trial at least"
        )
    z = _z(confidence)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At 0 and n the limits are exactly 0 and 1; rounding must not put the estimate outside.
    return Interval(rate, min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half)))


def mean_interval(values: Sequence[float], seed: int, confidence: float = 0.95, resamples: int = 2000) -> Interval:
    """Return the mean with its percentile bootstrap interval (Efron 1979), the same for the same seed.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all():
        raise ValueError(f"wanted a list of finite numbers, at least one, got shape {sample.shape}")
    means = _resampled_means(sample, seed, resamples)
    tail = (1 - _checked(confidence)) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(sample.mean()), float(low), float(high))


def paired_difference(
    a: Sequence[float], b: Sequence[float], seed: int, confidence: float = 0.95, resamples: int = 2000
) -> Interval:
    """Return mean(a - b) with its percentile bootstrap interval over problems; a[i] and b[i] are of one problem.

    Raises:
        ValueError: different lengths, no values, or one that is not finite.
    """
    if len(a) != len(b):
        raise ValueError(f"paired values must be of the same problems, got {len(a)} and {len(b)}")
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return mean_interval(differences.tolist(), seed, confidence, resamples)


def _resampled_means(sample: NDArray[np.float64], seed: int, resamples: int) -> NDArray[np.float64]:
    rng = seeds.generator(seed, "bootstrap")
    rows = max(1, _CHUNK_NUMBERS // sample.size)
    chunks = [
        sample[rng.integers(0, sample.size, (min(rows, resamples - done), sample.size))].mean(axis=1)
        for done in range(0, resamples, rows)
    ]
    return np.concatenate(chunks)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + _checked(confidence)) / 2)


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"got confidence {confidence}, wanted a number between 0 and 1")
    return confidence
