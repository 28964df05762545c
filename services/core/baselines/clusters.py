"""Questions grouped by their states: principal axes, then k-means (Lloyd 1982) from k-means++ centres."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

_AXES = 16
_ROUNDS = 50
_SAME = 1e-12  # squared distance, relative to the points' variance, of points that differ by rounding alone


def clusters(states: Matrix, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return each state's cluster, from 0 to at most ``count`` - 1; every number up to the largest is used.

    Args:
        states: shape (problems, d).
        count: of clusters, fewer where there are fewer different states.
        rng: for the first centres.
    """
    points = _principal(states)
    centres = _spread(points, count, rng)
    found = _nearest(points, centres)
    for _ in range(_ROUNDS):
        used = np.unique(found)
        centres = np.stack([points[found == place].mean(axis=0) for place in used])
        moved = _nearest(points, centres)
        if np.array_equal(moved, found):
            break
        found = moved
    numbered: NDArray[np.intp] = np.unique(found, return_inverse=True)[1]
    return numbered


def _principal(states: Matrix) -> Matrix:
    left, values, _ = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
    found: Matrix = left[:, :_AXES] * values[:_AXES]
    return found


def _spread(points: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """Return first centres: each drawn by its squared distance from those before (Arthur & Vassilvitskii 2007)."""
    chosen = [int(rng.integers(len(points)))]
    while len(chosen) < count:
        far = ((points[:, None] - points[chosen]) ** 2).sum(axis=2).min(axis=1)
        far[far < _SAME * (points**2).sum(axis=1).mean()] = 0.0
        if not far.any():
            break
        chosen.append(int(rng.choice(len(points), p=far / far.sum())))
    return points[chosen]


def _nearest(points: Matrix, centres: Matrix) -> NDArray[np.intp]:
    found: NDArray[np.intp] = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return found
