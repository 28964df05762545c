"""Limited-memory BFGS (Nocedal & Wright 2006, algorithms 7.4 and 7.5) with backtracking, for small smooth fits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Objective = Callable[[Vector], tuple[float, Vector]]

_MEMORY = 10
_DECREASE = 1e-4  # Armijo's condition
_SHORTEST = 2.0**-30


def minimise(objective: Objective, start: Vector, iterations: int = 200, tolerance: float = 1e-5) -> Vector:
    """Return a point of lower value than ``start``, close to a minimum where there is one nearby.

    Args:
        objective: point -> value and gradient.
        start: first point, shape (n,).
        iterations: at most.
        tolerance: largest entry of the gradient at which to stop.
    """
    point, (value, slope) = start, objective(start)
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        if np.abs(slope).max() <= tolerance:
            break
        direction = -_scaled(slope, pairs)
        step = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(slope).sum()))
        descent = float(direction @ slope)
        while True:
            moved = point + step * direction
            moved_value, moved_slope = objective(moved)
            if moved_value <= value + _DECREASE * step * descent:
                break
            step /= 2
            if step < _SHORTEST:
                return point
        change, bend = moved - point, moved_slope - slope
        if float(change @ bend) > 1e-10 * float(bend @ bend):
            pairs.append((change, bend))
        point, value, slope = moved, moved_value, moved_slope
    return point


def _scaled(slope: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """Return the inverse Hessian's estimate times the gradient."""
    if not pairs:
        return slope
    result, factors = slope, []
    for change, bend in reversed(pairs):
        factor = float(change @ result) / float(change @ bend)
        factors.append(factor)
        result = result - factor * bend
    change, bend = pairs[-1]
    result = result * (float(change @ bend) / float(bend @ bend))
    for (change, bend), factor in zip(pairs, reversed(factors), strict=True):
        result = result + (factor - float(bend @ result) / float(change @ bend)) * change
    return result
