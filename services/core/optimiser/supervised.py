"""Supervised fine-tuning of the linear head on labelled problems (paper, section A.2.2).

Labels are turned into target probabilities, hard ones as in the paper or soft ones, to which the head's softmax is
fitted. A head that is drawn from then plays as uncertainly as it predicts. The third aim has no targets: it climbs the
expected reward of the drawn model, whose gradient is exact where every model has answered.

Labels say how well each model does on its own, so that only the agents' rows are fitted; the roles' rows stay at zero,
where every role is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import HeadKind
from services.core.errors import SpecError
from services.core.labels import Labels
from services.core.learners import SupervisedSpec, Targets
from services.core.optimiser.adam import Adam
from services.core.policy.layout import Layout

Float64 = NDArray[np.float64]

SMALLEST_SCALE = 1e-6  # of a unit's root mean square; a unit that is always zero says nothing


@dataclass(frozen=True)
class Examples:
    """Problems to learn from.

    Attributes:
        states: standardised, shape (problems, d).
        goals: each agent's target probability, or its mean reward, shape (problems, agents).
        rewarded: whether the goals are rewards.
    """

    states: Float64
    goals: Float64
    rewarded: bool = False

    def rows(self, chosen: NDArray[np.intp]) -> Examples:
        return Examples(self.states[chosen], self.goals[chosen], self.rewarded)

    def loss(self, weights: Float64) -> float:
        """Return minus the mean expected reward, or the mean cross-entropy in nats, for weights (agents, d)."""
        logs = log_softmax(self.states @ weights.T)
        return float(-(self.goals * (np.exp(logs) if self.rewarded else logs)).sum(axis=1).mean())

    def slope(self, weights: Float64) -> Float64:
        """Return the gradient of minus the loss, shape (agents, d)."""
        policy = np.exp(log_softmax(self.states @ weights.T))
        if self.rewarded:
            error = policy * (self.goals - (policy * self.goals).sum(axis=1, keepdims=True))
        else:
            error = self.goals - policy
        found: Float64 = error.T @ self.states / len(self.states)
        return found


def fit_head(labels: Labels, layout: Layout, settings: SupervisedSpec, seed: int) -> Float64:
    """Return the parameters of a linear head that follows the labels, shape (n,).

    States are divided by their units' root mean squares for the fit, and the weights by the same afterwards: units of
    hidden states differ a hundredfold in size. They are not centred, because the head has no bias to make up for it.

    Args:
        labels: of all pool models; those that the layout has no row for are left out.
        layout: of a linear head; singular values, if there are any, stay at the model's own.
        settings: see there.
        seed: decides ties, mini-batches and folds.

    Raises:
        SpecError: another head.
        ValueError: the labels have other states or fewer models than the layout.
    """
    if layout.spec.kind is not HeadKind.LINEAR:
        raise SpecError("head.kind", str(layout.spec.kind), "linear: no other head is fitted to labels")
    if labels.states.shape[1] != layout.hidden or labels.models <= max(layout.agents):
        raise ValueError(
            f"got labels of {labels.models} models with states of width {labels.states.shape[1]}; wanted the layout's "
            f"{layout.hidden} and agents {layout.agents}"
        )
    scale = np.maximum(np.sqrt(np.mean(labels.states**2, axis=0)), SMALLEST_SCALE)
    goals = goals_of(labels.rewards[:, list(layout.agents)], settings, seed)
    examples = Examples(labels.states / scale, goals, settings.targets is Targets.REWARD)
    weights = fitted(examples, settings, seed, epochs_of(examples, settings, seed))
    theta = np.zeros(layout.size)
    theta[layout.svf : layout.svf + weights.size] = (weights / scale).ravel()
    return theta


def goals_of(rewards: Float64, settings: SupervisedSpec, seed: int) -> Float64:
    """Return each problem's mean rewards or target probabilities, shape (problems, agents).

    Args:
        rewards: shape (problems, agents, repeats).
        settings: what to aim at.
        seed: breaks the ties of hard targets.
    """
    means: Float64 = rewards.mean(axis=2)
    if settings.targets is Targets.REWARD:
        return means
    if settings.targets is Targets.SOFT:
        return np.exp(log_softmax(means / settings.temperature))
    return np.eye(rewards.shape[1])[hard_labels(rewards, seeds.generator(seed, "labels", "ties"))]


def hard_labels(rewards: Float64, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the model that is best in most repeats, shape (problems,); ties are broken uniformly (paper, A.2.2).

    Args:
        rewards: shape (problems, models, repeats).
        rng: breaks the ties.
    """
    best = _one_of_the_largest(rewards, rng)
    votes = np.stack([(best == model).sum(axis=1) for model in range(rewards.shape[1])], axis=1)
    found: NDArray[np.intp] = _one_of_the_largest(votes[:, :, np.newaxis].astype(np.float64), rng)[:, 0]
    return found


def epochs_of(examples: Examples, settings: SupervisedSpec, seed: int) -> int:
    """Return the number of epochs after which problems that were held back are told best, all folds together.

    Fewer problems than folds make as many folds as there are problems; one problem, or one fold, takes all epochs.
    """
    folds = min(settings.folds, len(examples.states))
    if folds < 2:
        return settings.epochs
    order = seeds.generator(seed, "labels", "folds").permutation(len(examples.states))
    losses = np.zeros(settings.epochs + 1)
    for fold in range(folds):
        held = np.zeros(len(order), dtype=bool)
        held[order[fold::folds]] = True
        kept, back = examples.rows(np.flatnonzero(~held)), examples.rows(np.flatnonzero(held))
        for epoch, weights in enumerate(_epochs(kept, settings, seed, settings.epochs)):
            losses[epoch] += back.loss(weights) * len(back.states)
    return int(losses.argmin())


def fitted(examples: Examples, settings: SupervisedSpec, seed: int, epochs: int) -> Float64:
    """Return the standardised weights after so many epochs from zero, shape (agents, d)."""
    *_, last = _epochs(examples, settings, seed, epochs)
    return last


def log_softmax(logits: Float64) -> Float64:
    """Return the logarithms of each row's softmax, shape as given."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    found: Float64 = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found


def _epochs(examples: Examples, settings: SupervisedSpec, seed: int, epochs: int) -> Iterator[Float64]:
    """Yield the weights before the first epoch and after each."""
    weights = np.zeros((examples.goals.shape[1], examples.states.shape[1]))
    adam = Adam(weights.size, settings.rate)
    rng = seeds.generator(seed, "labels", "batches")
    yield weights
    for _ in range(epochs):
        order = rng.permutation(len(examples.states))
        for begin in range(0, len(order), settings.batch):
            slope = examples.rows(order[begin : begin + settings.batch]).slope(weights)
            slope -= settings.weight_decay * weights
            weights = weights + adam.change(slope.ravel()).reshape(weights.shape)
        yield weights


def _one_of_the_largest(values: Float64, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return along the second axis the place of a largest value, any of them as likely; (p, m, r) becomes (p, r)."""
    jitter = rng.random(values.shape)
    found: NDArray[np.intp] = np.where(values == values.max(axis=1, keepdims=True), jitter, -1.0).argmax(axis=1)
    return found
