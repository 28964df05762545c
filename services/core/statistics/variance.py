"""How much of a fitness is the candidate and how much is luck: analysis of variance over replicated rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds

Rewards = NDArray[np.float64]  # one generation, (candidates, replicates)


@dataclass(frozen=True)
class Components:
    """Variance components of single rewards, pooled over generations by degrees of freedom.

    Attributes:
        between: of the candidates' true fitness; an unbiased estimate, so it may come out below zero.
        problem: of the problems, shared by all candidates of a generation; 0 when each has its own minibatch.
        noise: of what is left, which is what disturbs the ranking of candidates.
        replicates: rewards per candidate.
        generations: how many were pooled.
    """

    between: float
    problem: float
    noise: float
    replicates: int
    generations: int

    @property
    def signal_sd(self) -> float:
        return math.sqrt(max(0.0, self.between))

    @property
    def noise_sd(self) -> float:
        """Of a fitness, the mean of its replicates, against the other candidates of its generation."""
        return math.sqrt(self.noise / self.replicates)

    @property
    def reliability(self) -> float:
        """Share of the variance of fitness that is the candidates': the intraclass correlation of the means."""
        below = self.between + self.noise / self.replicates
        return self.between / below if below > 0 else 0.0


def mean_squares(generations: Sequence[Rewards], *, crossed: bool) -> NDArray[np.float64]:
    """Return each generation's mean squares of candidates, of problems (0 unless crossed) and of what is left.

    Args:
        generations: rewards, each (candidates, replicates) of the same shape, at least 2 x 2.
        crossed: whether all candidates of a generation met the same problems (two-way layout without repeats), or
            each its own (one-way layout).

    Returns:
        shape (generations, 3).

    Raises:
        ValueError: no generation, or shapes that differ or are too small.
    """
    shapes = {rewards.shape for rewards in generations}
    if len(shapes) != 1 or min(min(shape) for shape in shapes) < 2:
        raise ValueError(f"wanted generations of one shape, at least 2 x 2, got {sorted(shapes)}")
    return np.array([_mean_squares(rewards, crossed) for rewards in generations])


def components(squares: NDArray[np.float64], candidates: int, replicates: int, *, crossed: bool) -> Components:
    """Return the variance components by ANOVA (method of moments; Searle, Casella & McCulloch 1992, chapters 3 and 4).

    Args:
        squares: of ``mean_squares``, shape (generations, 3).
        candidates: of each generation.
        replicates: of each candidate.
        crossed: as for ``mean_squares``.
    """
    of_candidates, of_problems, left = (float(value) for value in squares.mean(axis=0))
    return Components(
        between=(of_candidates - left) / replicates,
        problem=(of_problems - left) / candidates if crossed else 0.0,
        noise=left,
        replicates=replicates,
        generations=len(squares),
    )


def _mean_squares(rewards: Rewards, crossed: bool) -> tuple[float, float, float]:
    candidates, replicates = rewards.shape
    of_candidates = rewards.mean(axis=1, keepdims=True)
    of_candidates_square = replicates * float(of_candidates.var(ddof=1))
    if not crossed:
        left = rewards - of_candidates
        return of_candidates_square, 0.0, float((left**2).sum()) / (candidates * (replicates - 1))
    of_problems = rewards.mean(axis=0, keepdims=True)
    left = rewards - of_candidates - of_problems + rewards.mean()
    freedom = (candidates - 1) * (replicates - 1)
    return of_candidates_square, candidates * float(of_problems.var(ddof=1)), float((left**2).sum()) / freedom


def half_products(generations: Sequence[Rewards], seed: int, splits: int = 50) -> NDArray[np.float64]:
    """Return sums of products of fitness in two random halves of the replicates, relative to its generation's mean.

    Returns:
        shape (splits, generations, 3): of both halves, of the one squared, of the other squared.
    """
    rng = seeds.generator(seed, "split-half")
    return np.array([[_products(*_halves(rewards, rng)) for rewards in generations] for _ in range(splits)])


def split_half(products: NDArray[np.float64]) -> float:
    """Return the correlation of fitness between halves, averaged over splits; NaN when some half has no differences."""
    both, one, other = products.sum(axis=1).T
    scales = np.sqrt(one * other)
    return float((both / scales).mean()) if (scales > 0).all() else math.nan


def spearman_brown(half: float) -> float:
    """Return the reliability of the whole from the correlation of its halves (Spearman 1910, Brown 1910)."""
    return 2 * half / (1 + half) if half > -1 else -math.inf


def _halves(rewards: Rewards, rng: np.random.Generator) -> tuple[Rewards, Rewards]:
    order = rng.permutation(rewards.shape[1])
    middle = rewards.shape[1] // 2
    one, other = rewards[:, order[:middle]].mean(axis=1), rewards[:, order[middle : 2 * middle]].mean(axis=1)
    return one - one.mean(), other - other.mean()


def _products(one: Rewards, other: Rewards) -> tuple[float, float, float]:
    return float(one @ other), float(one @ one), float(other @ other)
