"""Random search (paper, section 4.8 and appendix A.5): vectors from a box, each tried as often as the others.

The paper draws from U[-0.5, 0.5]^n, tries each vector 32 times, and stops when as many trials are spent as by
sep-CMA-ES; here ``search.half_width`` is 0.5, ``search.replicates`` 32, and the budget is population x generations.

What counts is luck as much as quality: the best of 960 vectors by 32 coin flips each is mostly the luckiest. Therefore
a vector is judged by its excess over the mean of its own generation, which had the same problems to solve (an easy
minibatch makes no champion), and the champion is a finalist only: ``mean`` is what a campaign validates every few
generations, and the released vector is the one that did best on those other problems, with that score beside it.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.optimiser.ports import Search
from services.core.optimiser.vectors import checked_fitness, first_mean

HALF_WIDTH = 0.5


class RandomSearch(Search):
    """Independent vectors, uniform in a box around the start; nothing is learned but which was best."""

    def __init__(
        self,
        seed: int,
        dimension: int,
        population: int,
        half_width: float = HALF_WIDTH,
        start: NDArray[np.float64] | None = None,
    ) -> None:
        """Start a search.

        Args:
            seed: the campaign's seed; each generation's stream is derived from it.
            dimension: n.
            population: vectors in a generation, at least 2: one has nothing to be compared with.
            half_width: of the box along every axis, above 0.
            start: centre of the box, shape (dimension,), finite; None for zero.

        Raises:
            ValueError: a value outside these bounds.
        """
        if dimension < 1 or population < 2 or not (math.isfinite(half_width) and half_width > 0):
            raise ValueError(
                f"got dimension {dimension}, population {population}, half width {half_width}; "
                "wanted at least 1, at least 2, and a finite number above 0"
            )
        self._seed = seed
        self._population = population
        self._half_width = float(half_width)
        self._centre = first_mean(start, dimension)
        self._champion = self._centre
        self._excess = -math.inf
        self._asked: NDArray[np.float64] | None = None
        self._generation = 0
        self._checksum = self._digest()

    @property
    def dimension(self) -> int:
        return len(self._centre)

    @property
    def population(self) -> int:
        return self._population

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def mean(self) -> NDArray[np.float64]:
        """The champion so far, shape (dimension,), a copy; the centre of the box until the first ``tell``."""
        return self._champion.copy()

    @property
    def sigma(self) -> float:
        """Standard deviation of the samples along every axis; it never changes."""
        return self._half_width / math.sqrt(3)

    @property
    def excess(self) -> float:
        """By how much the champion's fitness was above the mean of its generation; -inf until the first ``tell``."""
        return self._excess

    def ask(self) -> NDArray[np.float64]:
        return self._drawn().copy()

    def tell(self, fitness: NDArray[np.float64]) -> None:
        """See ``Search.tell``. Of equals the first stays the champion: their order says nothing."""
        values = checked_fitness(fitness, self._population)
        best = int(values.argmax())
        excess = float(values[best] - math.fsum(values) / len(values))
        if excess > self._excess:
            self._champion, self._excess = self._drawn()[best].copy(), excess
        self._asked = None
        self._generation += 1
        self._checksum = self._digest()

    def checksum(self) -> str:
        return self._checksum

    def _drawn(self) -> NDArray[np.float64]:
        if self._asked is None:
            samples = seeds.generator(self._seed, "search", "box", self._generation)
            shape = (self._population, self.dimension)
            self._asked = self._centre + samples.uniform(-self._half_width, self._half_width, shape)
        return self._asked

    def _digest(self) -> str:
        name = f"random search 1|{self._seed}|{self._generation}|{self.dimension}|{self._population}|"
        digest = hashlib.sha256(name.encode())
        digest.update(np.asarray([self._half_width, self._excess], dtype="<f8").tobytes())
        for vector in (self._centre, self._champion):
            digest.update(np.asarray(vector, dtype="<f8").tobytes())
        return digest.hexdigest()
