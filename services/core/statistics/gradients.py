"""Signal and noise of a mean of per-episode gradients (REINFORCE, Williams 1992)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds


@dataclass(frozen=True)
class Signal:
    """What a batch of per-episode gradients says about their mean.

    Attributes:
        snr: max(0, |mean|^2 - tr C / N) / (tr C / N): squared length of the true mean over that of its error.
        low, high: its 95 % interval by the delete-a-group jackknife, not below 0.
        cosine: between the means of two random halves, averaged over splits; 0 without signal.
        beyond: share of coordinates whose |t| is above 2.
        chance: that share for independent normal noise at this N.
        n: episodes.
    """

    snr: float
    low: float
    high: float
    cosine: float
    beyond: float
    chance: float
    n: int


def signal(gradients: NDArray[np.float64], seed: int, splits: int = 50) -> Signal:
    """Return the figures of per-episode gradients, shape (episodes, n).

    Raises:
        ValueError: fewer than four episodes.
    """
    episodes = len(gradients)
    if episodes < 4:
        raise ValueError(f"got {episodes} episodes, wanted at least 4")
    mean, spread = gradients.mean(axis=0), gradients.var(axis=0, ddof=1)
    scale = np.sqrt(spread / episodes)
    alive = scale > 0
    gram = gradients @ gradients.T
    value, error = _ratio(gram), _jackknife(gram, seeds.generator(seed, "jackknife"))
    return Signal(
        snr=max(0.0, value),
        low=max(0.0, value - 1.96 * error),
        high=max(0.0, value + 1.96 * error),
        cosine=_split_half(gram, seed, splits),
        beyond=float((np.abs(mean[alive]) > 2 * scale[alive]).mean()) if alive.any() else 0.0,
        chance=_beyond_two(episodes - 1, seed),
        n=episodes,
    )


def ratio(gradients: NDArray[np.float64]) -> float:
    """Return the signal-to-noise ratio without its bound at 0: its expectation is 0 when the true mean is 0."""
    return _ratio(gradients @ gradients.T)


def _ratio(gram: NDArray[np.float64]) -> float:
    """|mean|^2 and tr C are sums of the Gram matrix: no need for the gradients themselves."""
    episodes = len(gram)
    mean = float(gram.sum()) / episodes**2
    error = (float(np.trace(gram)) - episodes * mean) / (episodes - 1) / episodes
    return (mean - error) / error if error > 0 else 0.0


def _jackknife(gram: NDArray[np.float64], rng: np.random.Generator, groups: int = 20) -> float:
    """Return the standard error of the ratio; a smaller batch's ratio is scaled to the whole batch's size."""
    episodes = len(gram)
    parts = np.array_split(rng.permutation(episodes), min(groups, episodes // 2))
    values = []
    for part in parts:
        kept = np.setdiff1d(np.arange(episodes), part)
        values.append(_ratio(gram[np.ix_(kept, kept)]) * episodes / len(kept))
    return math.sqrt((len(parts) - 1) * float(np.var(values)))


def _split_half(gram: NDArray[np.float64], seed: int, splits: int) -> float:
    rng = seeds.generator(seed, "gradients")
    middle = len(gram) // 2
    found = []
    for _ in range(splits):
        order = rng.permutation(len(gram))
        one, other = order[:middle], order[middle:]
        between = float(gram[np.ix_(one, other)].mean())
        lengths = float(gram[np.ix_(one, one)].mean() * gram[np.ix_(other, other)].mean())
        found.append(between / math.sqrt(lengths) if lengths > 0 else 0.0)
    return float(np.mean(found))


def _beyond_two(freedom: int, seed: int, draws: int = 100_000) -> float:
    """Return P(|t| > 2) for Student's t by simulation: numpy has no distribution functions."""
    drawn = seeds.generator(seed, "student").standard_t(freedom, draws)
    return float((np.abs(drawn) > 2).mean())
