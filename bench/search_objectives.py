"""Two noisy objectives whose truth is known. Rewards are Bernoulli draws, and budgets count draws.

An instance is fixed by its seed; the noise comes from the caller's generator. Fitness is drawn in one go for all
candidates but number by number in the order of one candidate after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Score = Callable[[Float64], float]


class Common(Enum):
    """What the candidates of a generation share."""

    NOTHING = 0
    STATES = 1
    SEEDS = 2  # states, and the random numbers that draw agents and roles


class Objective(Protocol):
    """What a search maximises."""

    @property
    def dimension(self) -> int: ...

    def fitness(self, x: Float64, replicates: int, noise: np.random.Generator, common: Common) -> Float64:
        """Return the mean reward of ``replicates`` draws for each row of x, (k, n) -> (k,)."""
        ...

    def value(self, x: Float64) -> float:
        """Return what counts in the end, for one vector of shape (n,)."""
        ...

    def played(self, x: Float64) -> float:
        """Return the expected reward of a vector that is validated, shape (n,)."""
        ...

    def validation(self, problems: int, noise: np.random.Generator) -> Score:
        """Return what scores a vector on ``problems`` draws, the same problems and random numbers for every vector."""
        ...


class BlockSeparable(Objective):
    """A: p(x) = sigmoid(-2 + sum_b w_b tanh(u_b . x_b)) over ten blocks; p(0) = 0.12, supremum 0.95."""

    blocks = 10

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(1000 + seed)
        directions = rng.normal(size=(self.blocks, n // self.blocks))
        self.directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        weights = np.exp(rng.uniform(-1, 1, size=self.blocks))
        self.weights = weights * 5.0 / weights.sum()

    @property
    def dimension(self) -> int:
        return int(self.directions.size)

    def probabilities(self, x: Float64) -> Float64:
        """Return the true success probability of each row, (k, n) -> (k,)."""
        along = (x.reshape(len(x), *self.directions.shape) * self.directions).sum(axis=2)
        found: Float64 = 1.0 / (1.0 + np.exp(2.0 - np.tanh(along) @ self.weights))
        return found

    def fitness(self, x: Float64, replicates: int, noise: np.random.Generator, common: Common) -> Float64:
        return noise.binomial(replicates, self.probabilities(x)) / replicates

    def value(self, x: Float64) -> float:
        return float(self.probabilities(x[np.newaxis])[0])

    def played(self, x: Float64) -> float:
        return self.value(x)

    def validation(self, problems: int, noise: np.random.Generator) -> Score:
        luck = noise.random(problems)
        return lambda x: float((luck < self.value(x)).mean())


class SyntheticHead(Objective):
    """B: a linear head W (10 x d) over synthetic states; agent and role drawn from two softmaxes; one turn.

    Eight contexts, seven agents of which one is strong in each context, roles that multiply the chance by 0.5, 1, 0.3.
    """

    agents, roles, contexts = 7, 3, 8
    length: ClassVar[float] = 10.0  # of every state
    role_factor = np.array([0.5, 1.0, 0.3])
    held_out = 3000

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(1000 + seed)
        self.width = n // (self.agents + self.roles)
        common = rng.normal(size=self.width)
        self.common = common / np.linalg.norm(common)
        centroids = rng.normal(size=(self.contexts, self.width))
        self.centroids = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
        self.table = rng.uniform(0.15, 0.45, size=(self.contexts, self.agents))
        for context in range(self.contexts):
            self.table[context, rng.integers(self.agents)] = rng.uniform(0.85, 0.97)
        self.test_contexts, self.test_states = self.states(np.random.default_rng(77 + seed), self.held_out)

    @property
    def dimension(self) -> int:
        return (self.agents + self.roles) * self.width

    def states(self, rng: np.random.Generator, count: int) -> tuple[NDArray[np.int64], Float64]:
        """Draw contexts (count,) and states (count, width)."""
        context = rng.integers(self.contexts, size=count)
        around = rng.normal(size=(count, self.width)) / math.sqrt(self.width)
        state = self.common + 0.8 * self.centroids[context] + 0.4 * around
        return context, self.length * state / np.linalg.norm(state, axis=1, keepdims=True)

    def logits(self, x: Float64, states: Float64) -> tuple[Float64, Float64]:
        """Return logits of agents (k, m, 7) and roles (k, m, 3) of rows x (k, n) at states (m, width)."""
        rows = self.agents + self.roles
        products = (states @ x.reshape(-1, self.width).T).reshape(len(states), len(x), rows).swapaxes(0, 1)
        return products[..., : self.agents], products[..., self.agents :]

    def fitness(self, x: Float64, replicates: int, noise: np.random.Generator, common: Common) -> Float64:
        if common is Common.NOTHING:
            return np.concatenate([self._rewards(row[np.newaxis], replicates, noise, False) for row in x])
        return self._rewards(x, replicates, noise, common is Common.SEEDS)

    def _rewards(self, x: Float64, replicates: int, noise: np.random.Generator, seeds: bool) -> Float64:
        context, states = self.states(noise, replicates)
        luck = noise.random((len(x), 3, replicates))
        if seeds:
            luck[1:, :2] = luck[0, :2]
        _, rewards = self.play(x, context, states, luck)
        return np.asarray(rewards.mean(axis=1), dtype=np.float64)

    def play(
        self, x: Float64, context: NDArray[np.int64], states: Float64, luck: Float64
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]:
        """Return agents and roles that rows x (k, n) choose at m states, and the rewards, each (k, m).

        ``luck``, (k, 3, m), are the uniform numbers that decide agent, role and reward.
        """
        agents, roles = self.logits(x, states)
        agent, role = drawn(softmax(agents), luck[:, 0]), drawn(softmax(roles), luck[:, 1])
        return (agent, role), luck[:, 2] < self.table[context, agent] * self.role_factor[role]

    def value(self, x: Float64) -> float:
        """Return the exact value of the argmax policy on 3,000 held-out states."""
        agents, roles = self.logits(x[np.newaxis], self.test_states)
        agent, role = agents[0].argmax(axis=1), roles[0].argmax(axis=1)
        return float((self.table[self.test_contexts, agent] * self.role_factor[role]).mean())

    def played(self, x: Float64) -> float:
        """Return the exact value of the policy that draws, on the same states: what validation estimates."""
        agents, roles = self.logits(x[np.newaxis], self.test_states)
        skill = (softmax(agents)[0] * self.table[self.test_contexts]).sum(axis=1)
        return float((skill * (softmax(roles)[0] @ self.role_factor)).mean())

    def validation(self, problems: int, noise: np.random.Generator) -> Score:
        context, states = self.states(noise, problems)
        choice = noise.random((2, 1, problems))
        luck = noise.random((problems, self.agents, self.roles))  # a model's answer does not depend on who asks

        def score(x: Float64) -> float:
            agents, roles = self.logits(x[np.newaxis], states)
            agent, role = drawn(softmax(agents), choice[0])[0], drawn(softmax(roles), choice[1])[0]
            chance = self.table[context, agent] * self.role_factor[role]
            return float((luck[np.arange(problems), agent, role] < chance).mean())

        return score


def softmax(logits: Float64) -> Float64:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Float64 = powers / powers.sum(axis=-1, keepdims=True)
    return found


def drawn(policy: Float64, luck: Float64) -> NDArray[np.int64]:
    """Return the choice that each uniform number makes, (..., options) and (...) -> (...)."""
    choice = (policy.cumsum(axis=-1) < luck[..., np.newaxis]).sum(axis=-1)
    return np.asarray(choice.clip(0, policy.shape[-1] - 1), dtype=np.int64)


# What makes an instance of an objective from its dimension and its seed.
Kinds = Mapping[str, Callable[[int, int], Objective]]
KINDS: Kinds = {"block_separable": BlockSeparable, "head": SyntheticHead}
