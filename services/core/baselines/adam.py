"""Adam with decoupled weight decay (Loshchilov & Hutter 2019), state in, state out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.optimiser.adam import averaged, corrected


@dataclass(frozen=True)
class Adam:
    """A point and what the optimiser remembers of its gradients, all of shape (n,)."""

    point: NDArray[np.float64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    steps: int = 0

    @classmethod
    def start(cls, point: NDArray[np.float64]) -> Adam:
        return cls(point, np.zeros_like(point), np.zeros_like(point))

    def descend(self, slope: NDArray[np.float64], rate: float, decay: float = 0.0) -> Adam:
        """Return the state one step against the gradient further.

        Args:
            slope: gradient at the point.
            rate: step size.
            decay: of the point itself, times the rate.
        """
        steps = self.steps + 1
        first, second = averaged(self.first, self.second, slope)
        direction, divisor = corrected(first, second, steps)
        return Adam(self.point - rate * (direction / divisor + decay * self.point), first, second, steps)
