"""Adam (Kingma & Ba 2015), climbing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

FIRST_DECAY = 0.9  # beta 1
SECOND_DECAY = 0.999  # beta 2
SMALLEST = 1e-8  # epsilon


def averaged(first: Float64, second: Float64, gradient: Float64) -> tuple[Float64, Float64]:
    """Return both moments after one more gradient, all of the same shape."""
    return (
        FIRST_DECAY * first + (1 - FIRST_DECAY) * gradient,
        SECOND_DECAY * second + (1 - SECOND_DECAY) * gradient**2,
    )


def corrected(first: Float64, second: Float64, steps: int) -> tuple[Float64, Float64]:
    """Return direction and divisor of a step from the moments after so many, without their bias to zero."""
    return first / (1 - FIRST_DECAY**steps), np.sqrt(second / (1 - SECOND_DECAY**steps)) + SMALLEST


class Adam:
    """Turns gradients into changes.

    Attributes:
        rate: step size.
        steps: how many were taken.
    """

    def __init__(self, size: int, rate: float) -> None:
        self.rate = rate
        self.steps = 0
        self._first = np.zeros(size)
        self._second = np.zeros(size)

    @property
    def memory(self) -> Float64:
        """Return both moments, shape (2 size,); a copy."""
        return np.concatenate([self._first, self._second])

    def restore(self, steps: int, memory: Float64) -> None:
        """Go on after so many steps with the moments that ``memory`` gave.

        Raises:
            ValueError: it has another length, or there are no steps to speak of.
        """
        if steps < 0 or memory.shape != (2 * len(self._first),):
            raise ValueError(f"got {steps} steps and moments of shape {memory.shape}, wanted ({2 * len(self._first)},)")
        self.steps = steps
        self._first, self._second = np.array(memory, dtype=np.float64).reshape(2, -1)

    def change(self, gradient: Float64) -> Float64:
        """Return what to add to parameters that the gradient, shape (size,), says how to improve."""
        self.steps += 1
        self._first, self._second = averaged(self._first, self._second, gradient)
        direction, divisor = corrected(self._first, self._second, self.steps)
        change: Float64 = self.rate * direction / divisor
        return change
