"""A question's family is told from its state, and the best model of that family on the labels answers.

The objection to any learnt coordinator whose tasks can be told apart by eye: trinity.md 10, trivial task recognition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.baselines.router import join, split
from services.core.baselines.softmax_regression import PENALTIES, Linear, folds, path
from services.core.baselines.standardisation import Standardisation
from services.core.errors import LayoutMismatch
from services.core.labels import Labels
from services.core.optimiser.objectives import cross_entropy

_DECIMALS = 9  # means that differ by less are tied: they are sums in another order


class LookupRouter:
    """The likeliest family's model."""

    def __init__(self, parameters: NDArray[Any], models: int, hidden: int) -> None:
        """Read what ``fit`` returned.

        Raises:
            LayoutMismatch: the vector fits no number of families, or names a model that the pool does not have.
        """
        families = max(1, (np.size(parameters) - 2 * hidden) // (hidden + 2))
        shapes = {"centre": (hidden,), "scale": (hidden,), "weights": (families, hidden), "bias": (families,)}
        blocks = split(parameters, {**shapes, "models": (families,)})
        chosen = blocks["models"].astype(np.intp)
        if (chosen != blocks["models"]).any() or (chosen < 0).any() or (chosen >= models).any():
            sizes = {name: block.size for name, block in blocks.items()}
            raise LayoutMismatch(sizes, np.size(parameters), f"its models are not all in 0 to {models - 1}")
        self._standardised = Standardisation(blocks["centre"], blocks["scale"])
        self._classifier = Linear(blocks["weights"], blocks["bias"])
        self._models = chosen

    def family(self, state: NDArray[Any]) -> int:
        """Return the place of the likeliest family among the labels' families in alphabetical order."""
        return int(self._classifier.logits(self._standardised.read(state)).argmax())

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """See ``Router``; draws nothing."""
        return int(self._models[self.family(state)])


def fit(labels: Labels, seed: int) -> NDArray[np.float64]:
    """Return centre, scale, weights, bias and each family's model, shape (2 d + families x (d + 2),).

    The classifier is softmax regression; its penalty is the one of least log-loss in cross-validation.
    """
    names = sorted(set(labels.families))
    places = np.array([names.index(family) for family in labels.families])
    standardised = Standardisation.of(labels.states)
    states, targets = standardised(labels.states), np.eye(len(names))[places]
    penalty = _penalty(states, targets, seeds.derive(seed, "lookup"))
    *_, classifier = path(states, targets, PENALTIES[: PENALTIES.index(penalty) + 1])
    best = best_by_family(labels.means, places)
    return join(standardised.centre, standardised.scale, classifier.weights, classifier.bias, best.astype(np.float64))


def best_by_family(means: NDArray[np.float64], families: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return each family's best model; of equal ones the better overall, then the first.

    Args:
        means: mean rewards, shape (problems, models).
        families: each problem's family, from 0 to the number of families - 1.
    """
    overall = means.mean(axis=0).round(_DECIMALS)
    order = np.lexsort((np.arange(means.shape[1]), -overall))
    best = [
        order[means[families == place][:, order].mean(axis=0).round(_DECIMALS).argmax()]
        for place in np.unique(families)
    ]
    return np.array(best, dtype=np.intp)


def _penalty(states: NDArray[np.float64], targets: NDArray[np.float64], seed: int) -> float:
    losses = np.zeros(len(PENALTIES))
    for training, judged in folds(len(states), seed):
        for place, linear in enumerate(path(states[training], targets[training])):
            losses[place] += cross_entropy(linear.logits(states[judged]), targets[judged]) * len(judged)
    return PENALTIES[int(losses.argmin())]
