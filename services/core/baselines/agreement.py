"""Smoothie's quality of a model from how well its answers agree with the others' (HazyResearch/smoothie, src/model.py).

For answers e_i of the models i, with distances D_ij = ||e_i - e_j||^2,

    diff_i = mean over pairs j < k, both other than i, of (D_ij + D_ik - D_jk) / 2,

averaged over questions, and theta_i = dim / (2 diff_i). Answers are compared for equality instead of by an embedding of
their texts: D_ij is 0 or 1, and dim, which is the same for all models, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Same = Callable[[str, str], bool]
# diff is 0 when all agree, and can be below it when equality is judged by a rule that is not transitive.
_LEAST = 1e-6


def exactly(first: str, second: str) -> bool:
    """Whether two answers are the same but for the space around them."""
    return first.strip() == second.strip()


def distances(answers: Sequence[str | None], same: Same = exactly) -> NDArray[np.float64]:
    """Return 0 where two models gave the same answer and 1 elsewhere, shape (models, models), 0 on the diagonal.

    A model without an answer agrees with nobody, not even with another such model.
    """
    found = 1.0 - np.eye(len(answers))
    for row, first in enumerate(answers):
        for column in range(row):
            second = answers[column]
            if first is not None and second is not None and same(first, second):
                found[row, column] = found[column, row] = 0.0
    return found


def disagreement(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return diff, shape (models,), for squared distances of shape (models, models) or (questions, models, models).

    Raises:
        ValueError: fewer than three models, for which there are no pairs of others.
    """
    mean = distance if distance.ndim == 2 else distance.mean(axis=0)
    models = len(mean)
    if models < 3:
        raise ValueError(f"got {models} models, wanted at least 3: agreement is judged between pairs of others")
    own = mean.sum(axis=1)
    others = (mean.sum() - 2 * own) / 2
    found: NDArray[np.float64] = ((models - 2) * own - others) / ((models - 1) * (models - 2))
    return found


def qualities(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return theta normalised to sum 1, shape (models,); see ``disagreement`` for the argument."""
    theta = 1.0 / (2.0 * np.maximum(disagreement(distance), _LEAST))
    found: NDArray[np.float64] = theta / theta.sum()
    return found


def most_agreed(distance: NDArray[np.float64]) -> int:
    """Return the model with the largest theta, that is with the smallest diff; of equal ones the first."""
    return int(disagreement(distance).round(9).argmin())
