"""Adam with decoupled weight decay (Loshchilov & Hutter 2019), state in, state out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


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
        first = _FIRST * self.first + (1 - _FIRST) * slope
        second = _SECOND * self.second + (1 - _SECOND) * slope**2
        scaled = first / (1 - _FIRST**steps) / (np.sqrt(second / (1 - _SECOND**steps)) + _EPSILON)
        return Adam(self.point - rate * (scaled + decay * self.point), first, second, steps)
