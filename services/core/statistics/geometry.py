"""The shape of a set of states: how long they are, and how much of them is the same everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.core.statistics.intervals import Interval
from services.core.statistics.resampling import resampled


def mean_cosine(states: NDArray[np.float64], seed: int) -> Interval:
    """Return the mean cosine between two different states with its interval, the size of their common part.

    Raises:
        ValueError: fewer than two states, or one of length 0.
    """
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    if len(states) < 2 or (lengths == 0).any():
        raise ValueError(f"wanted at least two states, none of length 0, got {len(states)}")
    cosines = (states / lengths) @ (states / lengths).T

    def estimate(chosen: NDArray[np.intp]) -> float:
        """A state drawn twice is not a pair."""
        counts = np.bincount(chosen, minlength=len(states)).astype(np.float64)
        pairs = counts.sum() ** 2 - (counts**2).sum()
        return float((counts @ cosines @ counts - (counts**2).sum()) / pairs) if pairs else float("nan")

    return resampled(estimate, len(states), seed)


def entropies(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy in nats of each row's softmax, shape (rows,), for logits of shape (rows, choices)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1)
    found: NDArray[np.float64] = np.log(total) - (np.exp(shifted) * shifted).sum(axis=1) / total
    return found


def principal_plane(states: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Return the states on their first two principal axes, shape (states, 2), and the shares of variance of both."""
    centred = states - states.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    variances = values**2
    total = float(variances.sum()) or 1.0
    plane = np.zeros((len(states), 2))
    axes = min(2, left.shape[1])
    plane[:, :axes] = left[:, :axes] * values[:axes]
    shares = [float(variances[axis]) / total if axis < axes else 0.0 for axis in range(2)]
    return plane, (shares[0], shares[1])
