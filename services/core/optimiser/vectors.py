"""What every search demands of the vectors it is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def checked_fitness(fitness: NDArray[np.float64], population: int) -> NDArray[np.float64]:
    """Return the fitness, shape (population,); raises ValueError for another shape and for what is not finite."""
    try:
        values = np.asarray(fitness, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the fitness vector holds something that is not a number: {fitness!r}") from None
    if values.shape != (population,):
        raise ValueError(f"the fitness vector has shape {values.shape}, the population wants ({population},)")
    if not np.isfinite(values).all():
        missing = np.flatnonzero(~np.isfinite(values)).tolist()
        raise ValueError(f"the fitness of candidates {missing} is not a finite number")
    return values


def first_mean(start: NDArray[np.float64] | None, dimension: int) -> NDArray[np.float64]:
    """Return a copy of the start, zeros for None; raises ValueError for another shape and for what is not finite."""
    mean = np.zeros(dimension) if start is None else np.array(start, dtype=np.float64)
    if mean.shape != (dimension,) or not np.isfinite(mean).all():
        raise ValueError(f"the first mean has shape {mean.shape}, wanted ({dimension},) and finite numbers")
    return mean
