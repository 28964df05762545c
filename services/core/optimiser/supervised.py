"""Supervised fine-tuning of the linear head on labelled problems (paper, section A.2.2).

Labels are turned into target probabilities, hard ones as in the paper or soft ones, to which the head's softmax is
fitted. A head that is drawn from then plays as uncertainly as it predicts. The other aims have no targets: they climb
the expected reward of what the head draws, whose gradient is exact where every model has answered.

Of single turns only the agents' rows are fitted; the roles' rows stay at zero, where every role is as likely as any
other. A team's roles are what its rows are told: Worker, Verifier after an answer, Worker after a REVISE.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import HeadKind
from services.core.errors import SpecError
from services.core.labels import Labels
from services.core.learners import SupervisedSpec, Targets
from services.core.optimiser.adam import Adam
from services.core.optimiser.objectives import Float64, Likelihood, Objective, SingleTurn, Team, rewards_of_teams
from services.core.policy.layout import Layout
from services.core.policy.selection import softmax
from services.core.protocol.roles import Role

SHARES = (0.0, 0.5, 0.9)  # of the way to the family's mean
SMALLEST_SCALE = 1e-6  # of a unit's root mean square; a unit that is always zero says nothing


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
        ValueError: the labels have other states or fewer models than the layout, or no reviews for a team.
    """
    if layout.spec.kind is not HeadKind.LINEAR:
        raise SpecError("head.kind", str(layout.spec.kind), "linear: no other head is fitted to labels")
    if labels.states.shape[1] != layout.hidden or labels.models <= max(layout.agents):
        raise ValueError(
            f"got labels of {labels.models} models with states of width {labels.states.shape[1]}; wanted the layout's "
            f"{layout.hidden} and agents {layout.agents}"
        )
    chosen = labels.among(layout.agents)
    scale = scale_of(chosen)
    objective = objective_of(chosen, settings, scale, seed)
    families = np.unique(chosen.families, return_inverse=True)[1]
    share, epochs = chosen_by_folds(objective, families, settings, seed)
    rows = [fitted(objective.shrunk(families, share), settings, seed, epochs)]
    if isinstance(objective, Team):
        # Never stopped early: whose turn it is can be told without an error, and a row of zeros would always work.
        rows.append(fitted(roles_of(objective, layout), settings, seed, settings.epochs))
    weights = (np.concatenate(rows) / scale).ravel()
    theta = np.zeros(layout.size)
    theta[layout.svf : layout.svf + weights.size] = weights
    return theta


def scale_of(labels: Labels) -> Float64:
    """Return the root mean square of every unit over all states, shape (d,)."""
    states = [labels.states]
    if labels.reviews is not None:
        states += [labels.reviews.answered.astype(np.float64), labels.reviews.rejected.astype(np.float64)]
    every = np.concatenate([each.reshape(-1, each.shape[-1]) for each in states])
    found: Float64 = np.maximum(np.sqrt(np.mean(every**2, axis=0)), SMALLEST_SCALE)
    return found


def objective_of(labels: Labels, settings: SupervisedSpec, scale: Float64, seed: int) -> Objective:
    """Return what the agents' rows are fitted by."""
    states = labels.states / scale
    if settings.targets is Targets.REWARD:
        return SingleTurn(states, labels.means)
    if settings.targets is not Targets.TEAM:
        return Likelihood(states, targets_of(labels.rewards, settings, seed))
    if labels.reviews is None:
        raise ValueError("got labels without reviews, wanted them for a team")
    answered, rejected = labels.reviews.answered / scale, labels.reviews.rejected / scale
    return Team(states, rewards_of_teams(labels.means, labels.agreement()), answered, rejected)


def roles_of(team: Team, layout: Layout) -> Likelihood:
    """Return what tells the roles' rows who is next: a Worker, a Verifier after an answer, a Worker after a REVISE."""
    width = team.shape[1]
    parts = [team.states, team.answered.reshape(-1, width), team.rejected.reshape(-1, width)]
    roles = [Role.WORKER, Role.VERIFIER, Role.WORKER]
    targets = np.eye(len(layout.allowed))
    rows = [targets[[layout.allowed.index(role)] * len(part)] for role, part in zip(roles, parts, strict=True)]
    return Likelihood(np.concatenate(parts), np.concatenate(rows))


def targets_of(rewards: Float64, settings: SupervisedSpec, seed: int) -> Float64:
    """Return each problem's target probabilities, shape (problems, agents).

    Args:
        rewards: shape (problems, agents, repeats).
        settings: soft or hard targets.
        seed: breaks the ties of hard targets.
    """
    if settings.targets is Targets.SOFT:
        return softmax(rewards.mean(axis=2) / settings.temperature)
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


def chosen_by_folds(
    objective: Objective, families: NDArray[np.intp], settings: SupervisedSpec, seed: int
) -> tuple[float, int]:
    """Return the share of shrinkage and the number of epochs by which problems that were held back are told best.

    A problem's own rewards are one throw of a coin or a few, while those of its family are many: how far the goals are
    drawn toward their family's mean is a trade of noise for what differs within a family (James and Stein 1961).
    Fewer problems than folds make as many folds as there are problems; one problem, or one fold, leaves the goals as
    they are and takes all epochs.

    Args:
        objective: to fit.
        families: each problem's, as a number, shape (problems,).
        settings: folds and largest number of epochs.
        seed: decides folds and mini-batches.
    """
    folds = min(settings.folds, objective.problems)
    if folds < 2:
        return 0.0, settings.epochs
    order = seeds.generator(seed, "labels", "folds").permutation(objective.problems)
    losses = np.zeros((len(SHARES), settings.epochs + 1))
    for fold in range(folds):
        held = np.zeros(len(order), dtype=bool)
        held[order[fold::folds]] = True
        kept, back = objective.rows(np.flatnonzero(~held)), objective.rows(np.flatnonzero(held))
        for place, share in enumerate(SHARES):
            shrunk = kept.shrunk(families[~held], share)
            for epoch, weights in enumerate(_epochs(shrunk, settings, seed, settings.epochs)):
                losses[place, epoch] += back.loss(weights) * back.problems
    best = int(losses.argmin())
    return SHARES[best // losses.shape[1]], best % losses.shape[1]


def fitted(objective: Objective, settings: SupervisedSpec, seed: int, epochs: int) -> Float64:
    """Return the standardised weights after so many epochs from zero, shape (rows, d)."""
    *_, last = _epochs(objective, settings, seed, epochs)
    return last


def _epochs(objective: Objective, settings: SupervisedSpec, seed: int, epochs: int) -> Iterator[Float64]:
    """Yield the weights before the first epoch and after each."""
    weights = np.zeros(objective.shape)
    adam = Adam(weights.size, settings.rate)
    rng = seeds.generator(seed, "labels", "batches")
    yield weights
    for _ in range(epochs):
        order = rng.permutation(objective.problems)
        for begin in range(0, len(order), settings.batch):
            slope = objective.rows(order[begin : begin + settings.batch]).slope(weights)
            slope -= settings.weight_decay * weights
            weights = weights + adam.change(slope.ravel()).reshape(weights.shape)
        yield weights


def _one_of_the_largest(values: Float64, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return along the second axis the place of a largest value, any of them as likely; (p, m, r) becomes (p, r)."""
    jitter = rng.random(values.shape)
    found: NDArray[np.intp] = np.where(values == values.max(axis=1, keepdims=True), jitter, -1.0).argmax(axis=1)
    return found
