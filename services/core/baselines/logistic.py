"""Softmax regression over models on the question's state: the simplest router that learns from rewards directly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.baselines.router import join, split
from services.core.baselines.softmax_regression import PENALTIES, Linear, folds, path
from services.core.baselines.standardisation import Standardisation
from services.core.labels import Labels
from services.core.policy.selection import softmax

TEMPERATURES = (1.0, 0.3, 0.1)


class LogisticRouter:
    """The model with the largest logit; of equal ones the first."""

    def __init__(self, parameters: NDArray[Any], models: int, hidden: int) -> None:
        """Read what ``fit`` returned.

        Raises:
            LayoutMismatch: the vector is not one for this many models and coordinates.
        """
        shapes = {"centre": (hidden,), "scale": (hidden,), "weights": (models, hidden), "bias": (models,)}
        blocks = split(parameters, shapes)
        self._standardised = Standardisation(blocks["centre"], blocks["scale"])
        self._linear = Linear(blocks["weights"], blocks["bias"])

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """See ``Router``; draws nothing."""
        return int(self._linear.logits(self._standardised.read(state)).argmax())


def fit(labels: Labels, seed: int) -> NDArray[np.float64]:
    """Return centre, scale, weights and bias, shape (2 d + models x (d + 1),).

    Targets are softmax(mean reward / temperature). Temperature and penalty are those whose choices earn most on the
    problems left out in cross-validation; of equal ones the larger penalty, then the higher temperature.
    """
    standardised = Standardisation.of(labels.states)
    states, means = standardised(labels.states), labels.means
    temperature, penalty = _settings(states, means, seeds.derive(seed, "logistic"))
    *_, linear = path(states, soft_targets(means, temperature), PENALTIES[: PENALTIES.index(penalty) + 1])
    return join(standardised.centre, standardised.scale, linear.weights, linear.bias)


def soft_targets(means: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return softmax(reward / temperature) over models, shape (problems, models)."""
    return softmax(means / temperature)


def _settings(states: NDArray[np.float64], means: NDArray[np.float64], seed: int) -> tuple[float, float]:
    earned = np.zeros((len(PENALTIES), len(TEMPERATURES)))
    for training, judged in folds(len(states), seed):
        for column, temperature in enumerate(TEMPERATURES):
            for row, linear in enumerate(path(states[training], soft_targets(means[training], temperature))):
                chosen = linear.logits(states[judged]).argmax(axis=1)
                earned[row, column] += means[judged, chosen].sum()
    penalty, temperature = divmod(int(earned.round(9).argmax()), len(TEMPERATURES))
    return TEMPERATURES[temperature], PENALTIES[penalty]
