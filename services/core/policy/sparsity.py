"""The sparse head's selection mask (paper, appendix A.4, equations 10 and 11; details from the authors' code)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

COOLEST, HOTTEST = 1.0, 20.0  # bounds of the temperature tau


def kept(sparsity: float, hidden: int) -> int:
    """Return k = max(1, floor(d (1 - sigmoid(rho)))), the number of inputs that are selected."""
    return max(1, math.floor(hidden / (1 + math.exp(min(sparsity, 700.0)))))


def hard_mask(scores: Float64, count: int) -> Float64:
    """Return 1 for the ``count`` highest scores and 0 for the others, equals by position; the mask at inference."""
    mask = np.zeros(len(scores))
    mask[np.argsort(-scores, kind="stable")[:count]] = 1.0
    return mask


def training_mask(scores: Float64, count: int, temperature: float, rng: np.random.Generator) -> Float64:
    """Return weights that sum to ``count``, positive for as many inputs.

    Which inputs is decided by the scores with Gumbel noise, (s + eps) / tau; how much each counts by softmax(s / tau)
    without noise. Dividing by tau does not change the order and is left out of the former.

    Args:
        scores: s, shape (d,).
        count: k.
        temperature: tau, clamped to [1, 20].
        rng: gives exactly d Gumbel numbers, in the order of the inputs.
    """
    chosen = hard_mask(scores + rng.gumbel(size=len(scores)), count) > 0
    scaled = scores / min(max(temperature, COOLEST), HOTTEST)
    # Shifted by the chosen inputs' highest score, which cancels: some weight is 1, and the sum is never 0.
    weights = np.where(chosen, np.exp(np.minimum(scaled - scaled[chosen].max(), 0.0)), 0.0)
    mask: Float64 = weights * (count / weights.sum())
    return mask
