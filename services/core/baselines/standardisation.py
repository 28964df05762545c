"""States brought to mean 0 and variance 1 in every coordinate, and the few directions that most of them lies in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.router import read_state

# Below this share of the typical spread a coordinate is taken for constant: dividing by its own would only magnify
# the rounding of single precision.
_CONSTANT = 1e-3
_NOTHING = 1e-9  # singular values below this share of the largest are rounding


@dataclass(frozen=True)
class Standardisation:
    """What is subtracted from and what divides each coordinate, both of shape (d,)."""

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, states: NDArray[np.float64]) -> Standardisation:
        """Return the standardisation of these states, shape (problems, d)."""
        spread = states.std(axis=0)
        typical = float(np.sqrt((spread**2).mean())) or 1.0
        return cls(states.mean(axis=0), np.where(spread > _CONSTANT * typical, spread, typical))

    def __call__(self, states: NDArray[Any]) -> NDArray[np.float64]:
        """Return standardised states, shape as given: (d,) or (problems, d)."""
        found: NDArray[np.float64] = (states - self.centre) / self.scale
        return found

    def read(self, state: NDArray[Any]) -> NDArray[np.float64]:
        """Return one state standardised; see ``read_state`` for errors."""
        return self(read_state(state, len(self.centre)))


def principal_axes(states: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the directions of most variance, fewer where the states have fewer, scaled to a mean variance of 1.

    Args:
        states: of mean 0, shape (problems, d).
        count: of directions.

    Returns:
        shape (directions, d).
    """
    _, values, directions = np.linalg.svd(states, full_matrices=False)
    kept = values[: max(1, min(count, int((values > _NOTHING * values[0]).sum())))]
    variance = float((kept**2).mean()) / len(states) or 1.0
    found: NDArray[np.float64] = directions[: len(kept)] / np.sqrt(variance)
    return found
