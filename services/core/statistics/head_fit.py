"""Heads trained by gradient on an answer table: the paper's Table 3 in miniature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.core.optimiser.adam import averaged, corrected
from services.core.statistics.answer_table import AnswerTable, Matrix


@dataclass(frozen=True)
class Fit:
    """Weights with the best validation value, shape (agents, d), and the iteration at which they stood."""

    weights: Matrix
    iteration: int


def block_mask(rows: int, width: int) -> Matrix:
    """Return 1 where a block-diagonal head with one block per logit has weights, shape (rows, width).

    The blocks are contiguous slices of the state, the first ``width mod rows`` one longer (paper, appendix A.4).
    """
    edges = np.concatenate([[0], np.cumsum([width // rows + (row < width % rows) for row in range(rows)])])
    mask = np.zeros((rows, width))
    for row in range(rows):
        mask[row, edges[row] : edges[row + 1]] = 1.0
    return mask


def fit(
    training: AnswerTable, validation: AnswerTable, mask: Matrix, iterations: int = 1500, rate: float = 0.002
) -> Fit:
    """Climb J on the training table by Adam (Kingma & Ba 2015) from zero; keep what validates best.

    Args:
        training: to learn from.
        validation: to choose the iteration by.
        mask: which weights the head has, shape (agents, d).
        iterations: at most.
        rate: step size.
    """
    weights, first, second = (np.zeros(mask.shape) for _ in range(3))
    best = Fit(weights, 0)
    best_value = float(validation.values(weights).mean())
    for iteration in range(1, iterations + 1):
        slope = training.gradient(weights) * mask
        first, second = averaged(first, second, slope)
        direction, divisor = corrected(first, second, iteration)
        weights = weights + rate * direction / divisor
        value = float(validation.values(weights).mean())
        if value > best_value:
            best, best_value = Fit(weights, iteration), value
    return best
