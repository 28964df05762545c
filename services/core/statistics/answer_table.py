"""The exact objective of a head over recorded answers, with its derivatives.

One Worker turn whose reward is looked up in a table has a closed form: J(W) = mean over questions of
sum over agents of softmax(W h)_a r_a. Its gradient and Hessian in W need no sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.policy.selection import softmax

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class AnswerTable:
    """Questions with their states and every agent's recorded reward.

    Attributes:
        states: h, shape (questions, d).
        rewards: r, shape (questions, agents).
    """

    states: Matrix
    rewards: Matrix

    def __post_init__(self) -> None:
        if self.states.ndim != 2 or self.rewards.ndim != 2 or len(self.states) != len(self.rewards):
            raise ValueError(f"got states {self.states.shape} and rewards {self.rewards.shape}, wanted equal lengths")

    @property
    def agents(self) -> int:
        return int(self.rewards.shape[1])

    def rows(self, chosen: NDArray[np.intp]) -> AnswerTable:
        """Return the table of these questions, which may repeat."""
        return AnswerTable(self.states[chosen], self.rewards[chosen])

    def values(self, weights: Matrix) -> NDArray[np.float64]:
        """Return each question's expected reward, shape (questions,), for weights of shape (agents, d)."""
        answer: NDArray[np.float64] = (self._policy(weights) * self.rewards).sum(axis=1)
        return answer

    def sampled(self, weights: Matrix, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return one reward per question with the agent drawn from the softmax, shape (questions,)."""
        reached = np.cumsum(self._policy(weights), axis=1)
        drawn = (reached < rng.random((len(reached), 1)) * reached[:, -1:]).sum(axis=1)
        answer: NDArray[np.float64] = self.rewards[np.arange(len(drawn)), drawn]
        return answer

    def choices(self, weights: Matrix) -> NDArray[np.float64]:
        """Return each question's reward of the likeliest agent, shape (questions,)."""
        picked: NDArray[np.float64] = self.rewards[
            np.arange(len(self.states)), (self.states @ weights.T).argmax(axis=1)
        ]
        return picked

    def gradient(self, weights: Matrix) -> Matrix:
        """Return dJ/dW, shape (agents, d)."""
        answer: Matrix = self._slopes(weights).T @ self.states / len(self.states)
        return answer

    def hessian_product(self, weights: Matrix, direction: Matrix) -> Matrix:
        """Return the Hessian of J times ``direction``, shape (agents, d)."""
        moved = np.einsum("qab,qb->qa", self.curvatures(weights), self.states @ direction.T)
        answer: Matrix = moved.T @ self.states / len(self.states)
        return answer

    def curvatures(self, weights: Matrix) -> NDArray[np.float64]:
        """Return each question's Hessian of J in its logits, shape (questions, agents, agents)."""
        policy, slopes = self._policy(weights), self._slopes(weights)
        crossed = policy[:, :, None] * slopes[:, None, :]
        found: NDArray[np.float64] = -crossed - crossed.transpose(0, 2, 1)
        at = np.arange(self.agents)
        found[:, at, at] += slopes
        return found

    def _policy(self, weights: Matrix) -> Matrix:
        return softmax(self.states @ weights.T)

    def _slopes(self, weights: Matrix) -> Matrix:
        """Return the gradient in the logits: pi_a (r_a - J_q)."""
        policy = self._policy(weights)
        answer: Matrix = policy * (self.rewards - (policy * self.rewards).sum(axis=1, keepdims=True))
        return answer
