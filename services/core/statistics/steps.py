"""The steps of an evolution strategy, told again from its samples: are they reproducible, and do they point uphill?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics.attenuation import recombination_weights
from services.core.statistics.variance import Rewards

Samples = NDArray[np.float32]  # one generation, (candidates, n), in units of the search's own distribution


def step(samples: Samples, fitness: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the recombination step relative to the samples' mean, shape (n,); ties in random order.

    Weights are centred: with the plain ones two steps from the same samples would agree in part however they were
    ranked, by the samples' common mean.
    """
    return ranked_weights(fitness, rng) @ samples.astype(np.float64)


def ranked_weights(fitness: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return each candidate's weight minus the mean weight, shape (candidates,)."""
    size = len(fitness)
    weights = np.full(size, -1.0 / size)
    chosen = recombination_weights(size)
    order = np.lexsort((rng.permutation(size), -fitness))
    weights[order[: chosen.size]] += chosen
    return weights


def split_half_cosine(samples: Samples, rewards: Rewards, seed: int, splits: int = 20) -> float:
    """Return the cosine between the steps that two random halves of the replicates would have taken.

    Its expectation is 0 when the ranking is pure luck and 1 when the halves always agree. It says how far a step would
    repeat from the same samples, not how well it points along the gradient.
    """
    rng = seeds.generator(seed, "steps")
    gram = samples.astype(np.float64) @ samples.astype(np.float64).T
    middle = rewards.shape[1] // 2
    found = []
    for _ in range(splits):
        order = rng.permutation(rewards.shape[1])
        one = ranked_weights(rewards[:, order[:middle]].mean(axis=1), rng)
        other = ranked_weights(rewards[:, order[middle : 2 * middle]].mean(axis=1), rng)
        found.append(one @ gram @ other / np.sqrt((one @ gram @ one) * (other @ gram @ other)))
    return float(np.mean(found))


def drawn(samples: Samples) -> NDArray[np.intp]:
    """Return which candidates were drawn at random: not the opposite pair that measures the step size (two-point)."""
    pair = samples[:2].astype(np.float64)
    opposite = np.linalg.norm(pair.sum(axis=0)) < 1e-3 * np.linalg.norm(pair[0])
    return np.arange(2 if opposite else 0, len(samples))


@dataclass(frozen=True)
class Slope:
    """A regression of fitness on the position along a direction that other generations have found.

    Attributes:
        slope: gamma * sigma, the change of fitness per standard deviation along the direction.
        explained: R^2 of that position alone.
        curvature: gain in R^2 when the squared length of the sample is added.
        n: candidates.
    """

    slope: float
    explained: float
    curvature: float
    n: int


def directions(samples: Sequence[Samples], fitness: Sequence[NDArray[np.float64]], seed: int) -> NDArray[np.float64]:
    """Return two unit directions: of the steps of the even generations, and of the odd ones, shape (2, n).

    Raises:
        ValueError: fewer than two generations.
    """
    if len(samples) < 2:
        raise ValueError("a direction from other generations needs at least two generations")
    rng = seeds.generator(seed, "directions")
    steps = np.array([step(*each, rng) for each in zip(samples, fitness, strict=True)])
    sums = np.array([steps[0::2].sum(axis=0), steps[1::2].sum(axis=0)])
    units: NDArray[np.float64] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-300)
    return units


def regression(
    positions: Sequence[NDArray[np.float64]], lengths: Sequence[NDArray[np.float64]], fitness: Sequence[NDArray[Any]]
) -> Slope:
    """Return the pooled regression within generations; all arguments hold one array (candidates,) per generation.

    Args:
        positions: <u, z> of each candidate.
        lengths: squared length of each z.
        fitness: of each candidate.
    """
    x, square, y = (np.concatenate([part - part.mean() for part in parts]) for parts in (positions, lengths, fitness))
    total = float(y @ y)
    if total == 0 or float(x @ x) == 0:
        return Slope(0.0, 0.0, 0.0, len(y))
    slope = float(x @ y / (x @ x))
    alone = _explained(x[:, None], y, total)
    return Slope(slope, alone, max(0.0, _explained(np.column_stack([x, square]), y, total) - alone), len(y))


def _explained(columns: NDArray[np.float64], y: NDArray[np.float64], total: float) -> float:
    coefficients, *_ = np.linalg.lstsq(columns, y, rcond=None)
    left = y - columns @ coefficients
    return 1 - float(left @ left) / total
