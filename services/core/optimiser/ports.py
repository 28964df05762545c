"""What learners look like from outside."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Learner(Protocol):
    """Proposes parameter vectors; what it is told afterwards is its own.

    ``ask`` between two tellings returns the same population however often it is called, so that a scheduler may die
    and ask again. State changes in telling alone.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def population(self) -> int: ...

    @property
    def generation(self) -> int:
        """Number of generations told so far."""
        ...

    @property
    def mean(self) -> NDArray[np.float64]:
        """The distribution's mean, shape (dimension,); a copy. It, and no sample, is what a campaign returns."""
        ...

    @property
    def sigma(self) -> float:
        """The step size, above 0."""
        ...

    def ask(self) -> NDArray[np.float64]:
        """Return this generation's population, shape (population, dimension)."""
        ...

    def checksum(self) -> str:
        """Return 64 hex digits over the state after the last telling; ``ask`` does not change them."""
        ...


class Search(Learner, Protocol):
    """Learns from its vectors' fitness alone, which it maximises; its seed and the fitness vectors rebuild it."""

    def tell(self, fitness: NDArray[np.float64]) -> None:
        """Learn from the population's fitness, shape (population,), higher is better.

        Raises:
            ValueError: wrong shape, NaN or infinity; the search is as it was before.
        """
        ...


def population_size(dimension: int) -> int:
    """Return lambda = ceil(4 + 3 ln n) (paper, section 3.3 and appendix A.1: 32 at n = 10,000)."""
    if dimension < 1:
        raise ValueError(f"a search needs at least one dimension, got {dimension}")
    return math.ceil(4 + 3 * math.log(dimension))
