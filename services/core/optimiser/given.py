"""A vector that nothing is tried around."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from services.core.optimiser.ports import Learner
from services.core.optimiser.vectors import first_mean


class Given(Learner):
    """Where a search is going to start, or what was fitted to labels: it never learns."""

    def __init__(self, vector: NDArray[np.float64], sigma: float) -> None:
        """Take the vector, shape (dimension,), finite, and the step size of whoever goes on from it.

        Raises:
            ValueError: the vector is unfit.
        """
        self._vector = first_mean(vector, len(vector))
        self._sigma = sigma

    @property
    def dimension(self) -> int:
        return len(self._vector)

    @property
    def population(self) -> int:
        return 1

    @property
    def generation(self) -> int:
        return 0

    @property
    def mean(self) -> NDArray[np.float64]:
        return self._vector.copy()

    @property
    def sigma(self) -> float:
        return self._sigma

    def ask(self) -> NDArray[np.float64]:
        return self._vector[np.newaxis].copy()

    def checksum(self) -> str:
        digest = hashlib.sha256(f"given 1|{self.dimension}|{self._sigma!r}|".encode())
        digest.update(self._vector.astype("<f8").tobytes())
        return digest.hexdigest()
