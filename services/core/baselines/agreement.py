"""Smoothie's estimate of a model's quality from how well its answers agree with the others' (Guha et al. 2024).

For the answers e_i of the models to a question, with squared distances D_ij = |e_i - e_j|^2,

    diff_i = mean over pairs (j, k), both other than i, of (D_ij + D_ik - D_jk) / 2,
    theta_i = dim / (2 diff_i),

and the model with the largest theta, which is the smallest diff, is taken; over several questions diff is averaged
first (HazyResearch/smoothie, src/model.py). Without embeddings of the replies, two of them are at a squared distance of
0 if their final answers are the same and of 1 if not. No reward is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.scaffold import Same

_DECIMALS = 9  # sums in another order differ by less; such models are tied


def same_text(first: str | None, second: str | None) -> bool:
    """Whether two answers are the same but for case and space."""
    if first is None or second is None:
        return False
    return first.casefold().split() == second.casefold().split()


def answer_distances(answers: Sequence[str | None], same: Same = same_text) -> NDArray[np.float64]:
    """Return 0 for two answers that are the same and 1 for others, shape (answers, answers), 0 on the diagonal."""
    found = np.zeros((len(answers), len(answers)))
    for row, first in enumerate(answers):
        for column in range(row):
            found[row, column] = found[column, row] = float(not same(first, answers[column]))
    return found


def squared_distances(embeddings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |e_i - e_j|^2 for embeddings of shape (replies, dim)."""
    differences = embeddings[:, None, :] - embeddings[None, :, :]
    found: NDArray[np.float64] = (differences**2).sum(axis=2)
    return found


def diffs(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return diff_i of every reply; zeros for fewer than three, where there are no pairs of others to judge by.

    It is linear in the distances, so distances averaged over questions give diff averaged over questions.

    Args:
        distances: squared, shape (replies, replies), symmetric with a zero diagonal.
    """
    count = len(distances)
    if count < 3:
        return np.zeros(count)
    to_others = distances.sum(axis=1)
    among_others = distances.sum() / 2 - to_others
    pairs = (count - 1) * (count - 2) / 2
    # Each of the count - 1 distances to another reply stands in count - 2 pairs.
    found: NDArray[np.float64] = ((count - 2) * to_others - among_others) / (2 * pairs)
    return found


def closest(distances: NDArray[np.float64]) -> int:
    """Return the place of the largest theta; ties go to the first.

    theta falls as diff grows. An estimate of diff that is zero or negative, which only sampling error can make it, is
    the best there is.
    """
    return int(diffs(distances).round(_DECIMALS).argmin())
