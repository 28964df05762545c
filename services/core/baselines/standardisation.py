"""States brought to mean 0 and variance 1 in every coordinate, as linear classifiers want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Below this share of the typical spread a coordinate is taken for constant: dividing by its own would only magnify
# the rounding of single precision.
_CONSTANT = 1e-3


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
