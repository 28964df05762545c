"""RouterDC (Chen et al. 2024): a vector per model, learnt by two contrastive losses; the nearest one answers.

Differs from the original (trinity.md 6.2) in its encoder: instead of a fine-tuned mDeBERTa there is a linear projection
of the coordinator's own frozen state, hence a larger step size and shorter vectors. The projection sees the principal
axes of the labelled states alone, and cosines are divided by 0.3 instead of 1: in cross-validation on the training
questions of recorded outcomes that was worth 4 points of accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.baselines.adam import Adam
from services.core.baselines.clusters import clusters
from services.core.baselines.contrast import EMBEDDING, Batch, Weights, loss
from services.core.baselines.router import join, split
from services.core.baselines.standardisation import Standardisation, principal_axes
from services.core.labels import Labels

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """As the original's but for ``rate``, which was 5e-5 for a whole language model, and ``temperature``, which was 1.

    Attributes:
        axes: principal axes of the states that the projection sees.
        clusters: of questions, for the sample-sample loss.
        negatives: H, questions of other clusters per question.
        sample_weight: of the sample-sample loss; 1 in the paper's set-up.
        held_back: share of the labels that chooses the step, judged every ``every`` steps.
        spread: standard deviation of the first vectors.
    """

    top_k: int = 3
    last_k: int = 3
    clusters: int = 5
    negatives: int = 3
    sample_weight: float = 1.0
    temperature: float = 0.3
    axes: int = 48
    rate: float = 1e-2
    decay: float = 0.01
    batch: int = 64
    steps: int = 1000
    every: int = 50
    held_back: float = 0.2
    spread: float = 0.78


class RouterDc:
    """The model with the largest cosine; of equal ones the first."""

    def __init__(self, parameters: NDArray[Any], models: int, hidden: int) -> None:
        """Read what ``fit`` returned.

        Raises:
            LayoutMismatch: the vector is not one for this many models and coordinates.
        """
        learnt = EMBEDDING * (hidden + 1 + models)
        blocks = split(parameters, {"centre": (hidden,), "scale": (hidden,), "weights": (learnt,)})
        self._standardised = Standardisation(blocks["centre"], blocks["scale"])
        self._weights = Weights.read(blocks["weights"], models, hidden)

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """See ``Router``; draws nothing."""
        return int(self._weights.similarities(self._standardised.read(state)[None])[0].argmax())


def fit(labels: Labels, seed: int, settings: Settings | None = None) -> NDArray[np.float64]:
    """Return centre, scale, projection, bias and vectors, shape (2 d + 32 x (d + 1 + models),)."""
    chosen = settings or Settings()
    rng = seeds.generator(seed, "router dc")
    standardised = Standardisation.of(labels.states)
    axes = principal_axes(standardised(labels.states), chosen.axes)
    states, scores = standardised(labels.states) @ axes.T, labels.means
    shuffled = rng.permutation(len(states))
    judged = max(1, round(chosen.held_back * len(states)))
    training = _Training(states[shuffled[judged:]], scores[shuffled[judged:]], chosen, rng)
    search = Adam.start(_first(labels.models, states.shape[1], chosen, rng).vector())
    best, best_value = search.point, -np.inf
    for step in range(1, chosen.steps + 1):
        weights = Weights.read(search.point, labels.models, states.shape[1])
        slope = loss(weights, training.batch(), chosen.sample_weight, chosen.temperature)[1]
        search = search.descend(slope.vector(), chosen.rate, chosen.decay)
        if step % chosen.every == 0:
            value = _value(search.point, states[shuffled[:judged]], scores[shuffled[:judged]])
            if value > best_value + 1e-9:
                best, best_value = search.point, value
    found = Weights.read(best, labels.models, states.shape[1])
    return join(standardised.centre, standardised.scale, found.projection @ axes, found.bias, found.vectors)


def ranked(scores: Matrix, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return each question's models from best to worst, equal ones in random order, shape as given.

    With rewards of 0 and 1 most are equal; an order by place would favour the first models of the pool.
    """
    found: NDArray[np.intp] = np.lexsort((rng.random(scores.shape), -scores), axis=1)
    return found


def _first(models: int, hidden: int, settings: Settings, rng: np.random.Generator) -> Weights:
    projection = rng.standard_normal((EMBEDDING, hidden)) / np.sqrt(hidden)
    return Weights(projection, np.zeros(EMBEDDING), settings.spread * rng.standard_normal((models, EMBEDDING)))


def _value(vector: Matrix, states: Matrix, scores: Matrix) -> float:
    chosen = Weights.read(vector, scores.shape[1], states.shape[1]).similarities(states).argmax(axis=1)
    return float(scores[np.arange(len(scores)), chosen].mean())


class _Training:
    """Draws batches."""

    def __init__(self, states: Matrix, scores: Matrix, settings: Settings, rng: np.random.Generator) -> None:
        self._states, self._scores, self._settings, self._rng = states, scores, settings, rng
        self._cluster = clusters(states, settings.clusters, rng)
        self._order = np.argsort(self._cluster, kind="stable")  # one cluster behind the other
        self._place = np.argsort(self._order)
        self._sizes = np.bincount(self._cluster)
        self._begin = np.cumsum(self._sizes) - self._sizes

    def batch(self) -> Batch:
        size = min(self._settings.batch, len(self._states))
        rows = self._rng.choice(len(self._states), size, replace=False)
        scores = self._scores[rows]
        order = ranked(scores, self._rng)
        companions, paired = self._companions(rows)
        best, worst = order[:, : self._settings.top_k], order[:, -self._settings.last_k :]
        return Batch(self._states[rows], scores, best, worst, self._states[companions], paired)

    def _companions(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return another question of the same cluster and H of others, and for which questions there are both."""
        begin, size = (values[self._cluster[rows]] for values in (self._begin, self._sizes))
        near = begin + self._rng.integers(np.maximum(size - 1, 1))
        near += (near >= self._place[rows]) & (size > 1)
        others = len(self._states) - size
        shape = (len(rows), self._settings.negatives)
        far = self._rng.integers(np.maximum(others, 1)[:, None], size=shape)
        far += np.where(far >= begin[:, None], size[:, None], 0)
        places = np.concatenate([near[:, None], far % len(self._states)], axis=1)
        return self._order[places], (size > 1) & (others > 0)
