"""RouterDC's two contrastive losses and their gradients (Chen et al. 2024; shuhao02/RouterDC).

The encoder is frozen here: a question's embedding e is a linear projection of its state, and only the projection and
one vector k per model are learnt. Similarities are cosines, divided by a temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.router import split
from services.core.policy.selection import softmax

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

EMBEDDING = 32
GOOD = 0.5  # a model with a higher score is no negative


@dataclass(frozen=True)
class Weights:
    """What is learnt.

    Attributes:
        projection: shape (embedding, d).
        bias: of the embedding, shape (embedding,).
        vectors: one per model, shape (models, embedding).
    """

    projection: Matrix
    bias: NDArray[np.float64]
    vectors: Matrix

    @classmethod
    def read(cls, vector: NDArray[np.float64], models: int, hidden: int) -> Weights:
        """Return the parts of a vector of length embedding x (d + 1 + models)."""
        shapes = {"projection": (EMBEDDING, hidden), "bias": (EMBEDDING,), "vectors": (models, EMBEDDING)}
        return cls(**split(vector, shapes))

    def vector(self) -> NDArray[np.float64]:
        """Return all parts one behind the other."""
        return np.concatenate([self.projection.ravel(), self.bias, self.vectors.ravel()])

    def similarities(self, states: Matrix) -> Matrix:
        """Return cosines of every question with every model, shape (problems, models)."""
        found: Matrix = _unit(states @ self.projection.T + self.bias)[0] @ _unit(self.vectors)[0].T
        return found


@dataclass(frozen=True)
class Batch:
    """Questions of one step.

    Attributes:
        states: standardised, shape (batch, d).
        scores: mean rewards, shape (batch, models).
        best: the top_k models of each question, shape (batch, top_k).
        worst: the last_k models of each question, shape (batch, last_k).
        companions: states of one question of the same cluster and then of others, shape (batch, 1 + H, d); H may be 0.
        paired: whether a question has such companions, shape (batch,).
    """

    states: Matrix
    scores: Matrix
    best: Indices
    worst: Indices
    companions: Matrix
    paired: NDArray[np.bool_]


def loss(weights: Weights, batch: Batch, sample_weight: float, temperature: float = 1.0) -> tuple[float, Weights]:
    """Return the batch's loss and its gradient, in the form of the weights.

    Args:
        weights: where.
        batch: questions.
        sample_weight: of the sample-sample loss; the sample-LLM loss has weight 1.
        temperature: that cosines are divided by.
    """
    states = np.concatenate([batch.states, batch.companions.reshape(-1, batch.states.shape[1])])
    units, lengths = _unit(states @ weights.projection.T + weights.bias)
    keys, key_lengths = _unit(weights.vectors)
    size = len(batch.states)
    questions, others = units[:size], units[size:].reshape(size, -1, EMBEDDING)
    value, slopes = sample_llm(questions @ keys.T / temperature, batch)
    pair_value, pair_slopes = sample_sample(np.einsum("be,bhe->bh", questions, others) / temperature, batch.paired)
    slopes, pair_slopes = slopes / temperature, sample_weight * pair_slopes / temperature
    moved = slopes @ keys + np.einsum("bh,bhe->be", pair_slopes, others)
    others_moved = (pair_slopes[:, :, None] * questions[:, None, :]).reshape(-1, EMBEDDING)
    embedded = _through_unit(np.concatenate([moved, others_moved]), units, lengths)
    vectors = _through_unit(slopes.T @ questions, keys, key_lengths)
    gradient = Weights(embedded.T @ states, embedded.sum(axis=0), vectors)
    return value + sample_weight * pair_value, gradient


def sample_llm(similarities: Matrix, batch: Batch) -> tuple[float, Matrix]:
    """Return the sample-LLM loss, averaged over questions, and its gradient in the similarities.

    For each of a question's best models, -log of its share of exp(similarity) among itself and the worst ones. A worst
    model that scored above ``GOOD`` is left out of them, and a best one that scored 0 is skipped.
    """
    rows = np.arange(len(similarities))[:, None]
    negatives = np.where(batch.scores[rows, batch.worst] > GOOD, -np.inf, similarities[rows, batch.worst])
    value, slopes = 0.0, np.zeros_like(similarities)
    for column in range(batch.best.shape[1]):
        positive = batch.best[:, column : column + 1]
        counted = (batch.scores[rows, positive] > 0).astype(np.float64)
        shares = softmax(np.concatenate([similarities[rows, positive], negatives], axis=1))
        value -= float((counted[:, 0] * np.log(shares[:, 0])).mean())
        np.add.at(slopes, (rows, positive), counted * (shares[:, :1] - 1) / len(similarities))
        np.add.at(slopes, (rows, batch.worst), counted * shares[:, 1:] / len(similarities))
    return value, slopes


def sample_sample(cosines: Matrix, paired: NDArray[np.bool_]) -> tuple[float, Matrix]:
    """Return the sample-sample loss, averaged over questions, and its gradient in the cosines.

    Args:
        cosines: with one question of the same cluster, then with others, shape (batch, 1 + H).
        paired: which questions count, shape (batch,).
    """
    counted = paired.astype(np.float64) / len(paired)
    shares = softmax(cosines)
    slopes = shares * counted[:, None]
    slopes[:, 0] -= counted
    return -float((counted * np.log(shares[:, 0])).sum()), slopes


def _unit(vectors: Matrix) -> tuple[Matrix, Matrix]:
    """Return vectors of length 1 and the lengths they had, shape (rows, 1); the zero vector stays."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors / lengths, lengths


def _through_unit(slopes: Matrix, units: Matrix, lengths: Matrix) -> Matrix:
    """Return the gradient in vectors, given the one in their directions."""
    found: Matrix = (slopes - (slopes * units).sum(axis=1, keepdims=True) * units) / lengths
    return found
