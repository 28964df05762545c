"""What a search over parameter vectors looks like from outside."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Search(Protocol):
    """Proposes vectors and learns from their fitness; maximises.

    ``ask`` between two ``tell`` returns the same population however often it is called, so that a scheduler may die
    and ask again. State changes in ``tell`` alone.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def population(self) -> int: ...

    @property
    def generation(self) -> int:
        """Number of fitness vectors told so far."""
        ...

    @property
    def mean(self) -> NDArray[np.float64]:
        """The distribution's mean, shape (dimension,); a copy. It, and no sample, is what a campaign returns."""
        ...

    @property
    def sigma(self) -> float: ...

    def ask(self) -> NDArray[np.float64]:
        """Return this generation's population, shape (population, dimension)."""
        ...

    def tell(self, fitness: NDArray[np.float64]) -> None:
        """Learn from the population's fitness, shape (population,), higher is better.

        Raises:
            ValueError: wrong shape, NaN or infinity; the search is as it was before.
        """
        ...

    def checksum(self) -> str:
        """Return 64 hex digits over the state after the last ``tell``; ``ask`` does not change them."""
        ...


def population_size(dimension: int) -> int:
    """Return lambda = ceil(4 + 3 ln n) (paper, section 3.3 and appendix A.1: 32 at n = 10,000)."""
    if dimension < 1:
        raise ValueError(f"a search needs at least one dimension, got {dimension}")
    return math.ceil(4 + 3 * math.log(dimension))
