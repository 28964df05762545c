"""What a linear head is fitted to labels by: a loss over problems, and which way leads down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from services.core.policy.selection import softmax

Float64 = NDArray[np.float64]


class Objective(Protocol):
    """A loss over problems, for weights of shape ``shape``."""

    @property
    def problems(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    def rows(self, chosen: NDArray[np.intp]) -> Self:
        """Return the same of some of the problems."""
        ...

    def loss(self, weights: Float64) -> float:
        """Return the mean over the problems."""
        ...

    def slope(self, weights: Float64) -> Float64:
        """Return the gradient of minus the loss."""
        ...


@dataclass(frozen=True)
class Likelihood:
    """Cross-entropy of the softmax with target probabilities, in nats.

    Attributes:
        states: standardised, shape (problems, d).
        targets: shape (problems, rows), each row a distribution.
    """

    states: Float64
    targets: Float64

    @property
    def problems(self) -> int:
        return len(self.states)

    @property
    def shape(self) -> tuple[int, int]:
        return self.targets.shape[1], self.states.shape[1]

    def rows(self, chosen: NDArray[np.intp]) -> Likelihood:
        return Likelihood(self.states[chosen], self.targets[chosen])

    def loss(self, weights: Float64) -> float:
        return cross_entropy(self.states @ weights.T, self.targets)

    def slope(self, weights: Float64) -> Float64:
        error = self.targets - drawn(self.states, weights)
        found: Float64 = error.T @ self.states / self.problems
        return found


@dataclass(frozen=True)
class SingleTurn:
    """Minus the expected reward of one model that is drawn for each problem.

    Attributes:
        states: standardised, shape (problems, d).
        rewards: of each model, shape (problems, models).
    """

    states: Float64
    rewards: Float64

    @property
    def problems(self) -> int:
        return len(self.states)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rewards.shape[1], self.states.shape[1]

    def rows(self, chosen: NDArray[np.intp]) -> SingleTurn:
        return SingleTurn(self.states[chosen], self.rewards[chosen])

    def loss(self, weights: Float64) -> float:
        return -float((drawn(self.states, weights) * self.rewards).sum(axis=1).mean())

    def slope(self, weights: Float64) -> Float64:
        policy = drawn(self.states, weights)
        error = policy * (self.rewards - (policy * self.rewards).sum(axis=1, keepdims=True))
        found: Float64 = error.T @ self.states / self.problems
        return found


@dataclass(frozen=True)
class Team:
    """Minus the expected reward of a Worker, a Verifier and, after a REVISE, a second Worker, each drawn.

    A Verifier accepts exactly the answers that are its own, and a second Worker answers as it does alone: with these
    two assumptions the answers of all models on their own tell what every team of three would be worth.

    Attributes:
        states: of the question, standardised, shape (problems, d).
        answered: of it with each model's answer, (problems, models, d).
        rejected: of that with a review that rejects the answer, likewise.
        rewards: of each model, (problems, models).
        agree: whether two models' answers are the same, (problems, models, models).
    """

    states: Float64
    answered: Float64
    rejected: Float64
    rewards: Float64
    agree: NDArray[np.bool_]

    @property
    def problems(self) -> int:
        return len(self.states)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rewards.shape[1], self.states.shape[1]

    def rows(self, chosen: NDArray[np.intp]) -> Team:
        return Team(
            self.states[chosen],
            self.answered[chosen],
            self.rejected[chosen],
            self.rewards[chosen],
            self.agree[chosen],
        )

    def loss(self, weights: Float64) -> float:
        first, _, accepted, _, second = self._course(weights)
        return -float((first * (accepted * self.rewards + (1 - accepted) * second)).sum(axis=1).mean())

    def slope(self, weights: Float64) -> Float64:
        first, verifier, accepted, worker, second = self._course(weights)
        worth = accepted * self.rewards + (1 - accepted) * second
        at_first = first * (worth - (first * worth).sum(axis=1, keepdims=True))
        gained = (first * (self.rewards - second))[..., None]
        at_verifier = gained * verifier * (self.agree - accepted[..., None])
        left = (first * (1 - accepted))[..., None]
        at_second = left * worker * (self.rewards[:, None, :] - second[..., None])
        found: Float64 = at_first.T @ self.states
        found += np.tensordot(at_verifier, self.answered, ((0, 1), (0, 1)))
        found += np.tensordot(at_second, self.rejected, ((0, 1), (0, 1)))
        return found / self.problems

    def _course(self, weights: Float64) -> tuple[Float64, Float64, Float64, Float64, Float64]:
        """Return how likely each first Worker is, each Verifier after it, that it accepts, each second Worker, and
        what that one is worth: shapes (p, m), (p, m, m), (p, m), (p, m, m), (p, m)."""
        verifier, worker = drawn(self.answered, weights), drawn(self.rejected, weights)
        accepted = (verifier * self.agree).sum(axis=2)
        second = (worker * self.rewards[:, None, :]).sum(axis=2)
        return drawn(self.states, weights), verifier, accepted, worker, second


def drawn(states: NDArray[np.floating], weights: Float64) -> Float64:
    """Return how likely each row is at each state, (..., d) to (..., rows)."""
    return softmax(states @ weights.T)


def cross_entropy(logits: Float64, targets: Float64) -> float:
    """Return the mean of -sum(target x log softmax) over rows, in nats; targets may be soft."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -float((targets * logs).sum(axis=1).mean())
