"""How far blocks of the objective's Hessian are coupled (paper, appendix A.1, definition 1).

H is the Hessian of -J. Blocks are reduced to one unit direction each, C_bc = d_b' H d_c, which bounds the full figures
from below. Scaling the coordinates cancels in B1 and B2, so H is measured directly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics.answer_table import AnswerTable, Matrix


@dataclass(frozen=True)
class Coupling:
    """The three measures of a reduced matrix; None where the definition does not hold.

    Attributes:
        spectral: B1, largest singular value of the scaled matrix without its diagonal.
        pairwise: B2, largest scaled entry off the diagonal.
        row: B3, largest row sum off the diagonal relative to its diagonal entry.
        negative: share of diagonal entries at or below zero. The definition wants none: it speaks of a minimum of -J.
    """

    spectral: float | None
    pairwise: float | None
    row: float | None
    negative: float


def coupling(reduced: Matrix) -> Coupling:
    """Return the measures of a reduced Hessian of -J, shape (blocks, blocks), symmetric."""
    diagonal = np.diag(reduced)
    negative = float((diagonal <= 0).mean())
    if negative:
        return Coupling(None, None, None, negative)
    off = np.abs(reduced - np.diag(diagonal))
    scaled = (reduced - np.diag(diagonal)) / np.sqrt(np.outer(diagonal, diagonal))
    return Coupling(
        spectral=float(np.linalg.norm(scaled, 2)),
        pairwise=float(np.abs(scaled).max()),
        row=float((off.sum(axis=1) / diagonal).max()),
        negative=0.0,
    )


def reduced_by_question(table: AnswerTable, weights: Matrix, directions: Matrix) -> NDArray[np.float64]:
    """Return each question's reduced Hessian of -J, shape (questions, agents, agents); their mean is C.

    Args:
        table: questions, states and rewards.
        weights: where, shape (agents, d).
        directions: one per row of the head, shape (agents, d); scaled to length 1 here.
    """
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    positions = table.states @ (directions / np.where(lengths > 0, lengths, 1.0)).T
    found: NDArray[np.float64] = -table.curvatures(weights) * positions[:, :, None] * positions[:, None, :]
    return found


def random_directions(shape: tuple[int, ...], seed: int, number: int) -> Matrix:
    """Return the ``number``-th set of independent normal directions."""
    return seeds.generator(seed, "block directions", number).standard_normal(shape)


def coordinate_diagonal(table: AnswerTable, weights: Matrix) -> Matrix:
    """Return the Hessian of -J's diagonal, coordinate by coordinate, shape (agents, d)."""
    own = np.diagonal(table.curvatures(weights), axis1=1, axis2=2)
    answer: Matrix = -own.T @ table.states**2 / len(table.states)
    return answer


def full_spectral(table: AnswerTable, weights: Matrix, seed: int, iterations: int = 60) -> float | None:
    """Return B1 over all coordinates by power iteration with Hessian-vector products; None where it is not defined.

    Power iteration approaches the largest singular value from below.
    """
    diagonal = coordinate_diagonal(table, weights)
    if (diagonal <= 0).any():
        return None
    scale = np.sqrt(diagonal)
    vector = seeds.generator(seed, "power iteration").standard_normal(diagonal.shape)
    length = 0.0
    for _ in range(iterations):
        vector = vector / np.linalg.norm(vector)
        vector = _between_rows(table, weights, vector / scale) / scale
        length = float(np.linalg.norm(vector))
        if length == 0:
            break
    return length


def _between_rows(table: AnswerTable, weights: Matrix, vector: Matrix) -> Matrix:
    """Return the Hessian of -J without its blocks on the diagonal, times a vector."""
    curvatures = table.curvatures(weights)
    at = np.arange(table.agents)
    curvatures[:, at, at] = 0.0
    moved = np.einsum("qab,qb->qa", curvatures, table.states @ vector.T)
    answer: Matrix = -moved.T @ table.states / len(table.states)
    return answer
