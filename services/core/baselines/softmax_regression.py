"""Multinomial logistic regression with an L2 penalty on the weights, the bias free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.baselines.minimisation import Vector, minimise
from services.core.optimiser.objectives import cross_entropy
from services.core.policy.selection import softmax

Matrix = NDArray[np.float64]
# From none to speak of to the bias alone, in units of the mean variance of a standardised coordinate.
PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
FOLDS = 5


@dataclass(frozen=True)
class Linear:
    """Weights of shape (classes, d) and a bias of shape (classes,)."""

    weights: Matrix
    bias: Vector

    def logits(self, states: Matrix) -> Matrix:
        """Return shape (problems, classes), or (classes,) for one state."""
        found: Matrix = states @ self.weights.T + self.bias
        return found


def objective(states: Matrix, targets: Matrix, penalty: float) -> Callable[[Vector], tuple[float, Vector]]:
    """Return the loss and its gradient as a function of weights and bias in one vector.

    Args:
        states: shape (problems, d).
        targets: shape (problems, classes), rows summing to 1.
        penalty: of half the squared length of the weights.
    """
    classes, width = targets.shape[1], states.shape[1]

    def loss(vector: Vector) -> tuple[float, Vector]:
        linear = _linear(vector, classes, width)
        logits = linear.logits(states)
        value = cross_entropy(logits, targets) + penalty / 2 * float((linear.weights**2).sum())
        slopes = (softmax(logits) - targets) / len(states)
        return value, np.concatenate([(slopes.T @ states + penalty * linear.weights).ravel(), slopes.sum(axis=0)])

    return loss


def path(states: Matrix, targets: Matrix, penalties: Sequence[float] = PENALTIES) -> Iterator[Linear]:
    """Yield the fit for each penalty, each started from the one before: from large to small this is quick."""
    classes, width = targets.shape[1], states.shape[1]
    vector = np.zeros(classes * (width + 1))
    for penalty in penalties:
        vector = minimise(objective(states, targets, penalty), vector, iterations=100, tolerance=1e-4)
        yield _linear(vector, classes, width)


def folds(problems: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return rows to learn from and rows to judge by, each problem being judged once."""
    shuffled = seeds.generator(seed, "folds").permutation(problems)
    parts = np.array_split(shuffled, min(FOLDS, problems))
    return [(np.setdiff1d(shuffled, part), part) for part in parts]


def _linear(vector: Vector, classes: int, width: int) -> Linear:
    return Linear(vector[: classes * width].reshape(classes, width), vector[classes * width :])
