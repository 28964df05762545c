"""What a linear head is fitted to labels by: a loss over problems, and which way leads down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from services.core.policy.selection import softmax

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Objective(ABC):
    """A loss over problems, for weights of shape (rows, d).

    Attributes:
        states: of the questions, standardised, shape (problems, d).
        goals: what every choice is worth, or should have as its probability, shape (problems, rows, ...).
    """

    states: Float64
    goals: Float64

    @property
    def problems(self) -> int:
        return len(self.states)

    @property
    def shape(self) -> tuple[int, int]:
        return self.goals.shape[1], self.states.shape[1]

    def rows(self, chosen: NDArray[np.intp]) -> Self:
        """Return the same of some of the problems."""
        return replace(self, **{each.name: getattr(self, each.name)[chosen] for each in fields(self)})

    def shrunk(self, families: NDArray[np.intp], share: float) -> Self:
        """Return the same with goals that are drawn toward the mean of their family by this share of the way.

        Args:
            families: each problem's, as a number, shape (problems,).
            share: 0 leaves the goals as they are, 1 takes the mean.
        """
        sums = np.zeros((int(families.max()) + 1, *self.goals.shape[1:]))
        np.add.at(sums, families, self.goals)
        counts = np.maximum(np.bincount(families), 1).reshape(-1, *[1] * (self.goals.ndim - 1))
        return replace(self, goals=(1 - share) * self.goals + share * (sums / counts)[families])

    @abstractmethod
    def loss(self, weights: Float64) -> float:
        """Return the mean over the problems."""

    @abstractmethod
    def slope(self, weights: Float64) -> Float64:
        """Return the gradient of minus the loss."""


class Likelihood(Objective):
    """Cross-entropy of the softmax, in nats, with goals that are target probabilities, shape (problems, rows)."""

    def loss(self, weights: Float64) -> float:
        return cross_entropy(self.states @ weights.T, self.goals)

    def slope(self, weights: Float64) -> Float64:
        found: Float64 = (self.goals - drawn(self.states, weights)).T @ self.states / self.problems
        return found


class SingleTurn(Objective):
    """Minus the expected reward of one model that is drawn; goals are rewards, shape (problems, models)."""

    def loss(self, weights: Float64) -> float:
        return -float((drawn(self.states, weights) * self.goals).sum(axis=1).mean())

    def slope(self, weights: Float64) -> Float64:
        policy = drawn(self.states, weights)
        error = policy * (self.goals - (policy * self.goals).sum(axis=1, keepdims=True))
        found: Float64 = error.T @ self.states / self.problems
        return found


@dataclass(frozen=True)
class Team(Objective):
    """Minus the expected reward of a Worker, a Verifier and, after a REVISE, a second Worker, each drawn.

    Goals are rewards by first Worker, Verifier and second Worker, shape (problems, models, models, models).

    Attributes:
        answered: states of the question with each model's answer, standardised, (problems, models, d).
        rejected: of that with a review that rejects the answer, likewise.
    """

    answered: Float64
    rejected: Float64

    def loss(self, weights: Float64) -> float:
        first, verifier, second = self._drawn(weights)
        return -float(np.einsum("pa,pab,pac,pabc->p", first, verifier, second, self.goals, optimize=True).mean())

    def slope(self, weights: Float64) -> Float64:
        first, verifier, second = self._drawn(weights)
        reviewed = np.einsum("pac,pabc->pab", second, self.goals)
        mended = np.einsum("pab,pabc->pac", verifier, self.goals)
        worth = (verifier * reviewed).sum(axis=2)
        at_first = first * (worth - (first * worth).sum(axis=1, keepdims=True))
        at_verifier = first[..., None] * verifier * (reviewed - worth[..., None])
        at_second = first[..., None] * second * (mended - worth[..., None])
        found: Float64 = at_first.T @ self.states
        found += np.tensordot(at_verifier, self.answered, ((0, 1), (0, 1)))
        found += np.tensordot(at_second, self.rejected, ((0, 1), (0, 1)))
        return found / self.problems

    def _drawn(self, weights: Float64) -> tuple[Float64, Float64, Float64]:
        """Return how likely each first Worker is, and after it each Verifier and second Worker."""
        return drawn(self.states, weights), drawn(self.answered, weights), drawn(self.rejected, weights)


def rewards_of_teams(rewards: Float64, agree: NDArray[np.bool_]) -> Float64:
    """Return what every team of three is worth, shape (problems, models, models, models).

    A Verifier accepts exactly the answers that are its own, and a second Worker answers as it does alone: with these
    two assumptions the answers of all models on their own tell it.

    Args:
        rewards: of each model, (problems, models).
        agree: whether two models' answers are the same, (problems, models, models).
    """
    return np.where(agree[..., None], rewards[:, :, None, None], rewards[:, None, None, :])


def drawn(states: Float64, weights: Float64) -> Float64:
    """Return how likely each row is at each state, (..., d) to (..., rows)."""
    return softmax(states @ weights.T)


def cross_entropy(logits: Float64, targets: Float64) -> float:
    """Return the mean of -sum(target x log softmax) over rows, in nats; targets may be soft."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -float((targets * logs).sum(axis=1).mean())
