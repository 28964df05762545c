"""What every head has in common: named parameters, a start, and logits from a state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


class Head(ABC):
    """Turns a state into logits (paper, appendix A.4).

    Attributes:
        rows: number of logits, n_a.
        hidden: d, the width of the encoder's state.
    """

    def __init__(self, rows: int, hidden: int) -> None:
        self.rows = rows
        self.hidden = hidden

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the parameters, in the order in which they stand in the vector; row-major each."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def split(self, parameters: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the vector's parts, shape (size,) each in its own shape, as views."""
        parts, begin = {}, 0
        for name, shape in self.shapes.items():
            end = begin + math.prod(shape)
            parts[name] = parameters[begin:end].reshape(shape)
            begin = end
        return parts

    def start(self, rng: np.random.Generator) -> Float64:
        """Return the point at which a search starts, shape (size,): zero, as in the authors' code."""
        return np.zeros(self.size)

    def logits(
        self, parameters: NDArray[Any], state: NDArray[Any], rng: np.random.Generator | None = None
    ) -> NDArray[np.float32]:
        """Return the logits of one state, shape (rows,).

        Products of float32 numbers are exact in float64, and summing there leaves an error far below float32's last
        digit: the result does not depend on how the sum is ordered on this machine or the next, bar the rarest rounding
        tie. What is not linear is computed in float64, too, and rounded to float32 once, at the end.

        Args:
            parameters: shape (size,); float32 values.
            state: shape (hidden,), float32, the encoder's hidden state.
            rng: the decision's generator in training, None at inference. A head that wants noise takes it from a child
                of it, so that the numbers that ``rng`` itself gives next are the same whatever the head.

        Raises:
            ValueError: the state has another width than the head, or holds NaN or infinity.
        """
        if state.shape != (self.hidden,):
            raise ValueError(f"the encoder's state has shape {state.shape}, the head wants ({self.hidden},)")
        if not np.isfinite(state).all():
            raise ValueError("the encoder's state holds NaN or infinity")
        parts = self.split(np.asarray(parameters, dtype=np.float64))
        logits: NDArray[np.float32] = self._apply(parts, state.astype(np.float64), rng).astype(np.float32)
        return logits

    @abstractmethod
    def _apply(self, parts: Mapping[str, Float64], state: Float64, rng: np.random.Generator | None) -> Float64: ...
