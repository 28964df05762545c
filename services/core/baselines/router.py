"""What every fitted rival becomes: something that names the one model that answers a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from services.core.errors import LayoutMismatch

FEWEST = 4  # labelled problems: fewer cannot be split into a part to learn from and a part to judge by


class Router(Protocol):
    """Picks one model for a question. It must be safe to call from many threads."""

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """Return which of the models it is fitted to answers, by its place among them.

        Args:
            state: what the encoder reads of the question alone, shape (d,).
            rng: the episode's own generator; most routers draw nothing.

        Raises:
            ValueError: the state has another shape.
        """
        ...


def read_state(state: NDArray[Any], hidden: int) -> NDArray[np.float64]:
    """Return the state in double precision, shape (hidden,).

    Raises:
        ValueError: it has another shape, or entries that are not finite.
    """
    found = np.asarray(state, dtype=np.float64)
    if found.shape != (hidden,) or not np.isfinite(found).all():
        raise ValueError(f"got a state of shape {found.shape}, wanted ({hidden},) and finite numbers")
    return found


def join(*blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the blocks one behind the other, rounded as they are stored: to single precision."""
    vector = np.concatenate([np.ravel(block) for block in blocks])
    return vector.astype(np.float32).astype(np.float64)


def split(parameters: NDArray[Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float64]]:
    """Return a vector's blocks by name, in double precision.

    Raises:
        LayoutMismatch: the vector is longer or shorter, or has entries that are not finite.
    """
    vector = np.asarray(parameters, dtype=np.float64)
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    if vector.shape != (sum(sizes.values()),):
        raise LayoutMismatch(sizes, vector.size)
    if not np.isfinite(vector).all():
        raise LayoutMismatch(sizes, vector.size, f"{int((~np.isfinite(vector)).sum())} of them are not finite")
    edges = np.cumsum(list(sizes.values()))[:-1]
    parts = np.split(vector, edges)
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
