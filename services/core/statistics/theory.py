"""What the paper's appendix predicts, in numbers (appendix A.1; constants that it leaves open are taken as 1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def random_trials(replicates: int, population: int, generations: int, trials_each: int) -> int:
    """Return how many vectors random search tries for the episodes that the strategy had."""
    return max(1, replicates * population * generations // trials_each)


def gain_ratio(kappa_bar: float, generations: int, trials: int, eta: float) -> float:
    """Return proposition 1's lower bound of the strategy's gain over random search's, without its constant C.

    Args:
        kappa_bar: n alpha^2 / beta of the recombination.
        generations: T.
        trials: of random search for the same episodes.
        eta: ratio of the two rank attenuations.
    """
    return kappa_bar / 2 * generations / math.log(max(math.e, trials)) * eta**2


def contraction(kappa_bar: float, dimension: int, generations: int) -> float:
    """Return the share of r^2 that a noise-free strategy removes in T generations: 1 - (1 - kappa_bar / n)^T."""
    return 1 - (1 - min(1.0, kappa_bar / dimension)) ** generations


def condition(scaling: NDArray[np.float64]) -> float:
    """Return kappa_D = (largest / smallest)^2 of the search's own diagonal scaling."""
    return float((scaling.max() / scaling.min()) ** 2)
