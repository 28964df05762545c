"""MasRouter (Yue et al. 2025): a cascade that designs a team for each question, learnt by policy gradient.

The smallest faithful port (trinity.md 6.2): the cascade and its utility, reward - cost_rate x cost, over schedules of
the product's own roles. Left out are the task classifier, which only selects the original's role descriptions, and the
variational encoding of query and modes; embeddings of descriptions are learnt vectors instead.

What a team earns is known only by playing it. ``train`` takes that as a function. ``fit`` has labels alone, which tell
what each model answers on its own: it trains the cascade whose only mode is one answer by one model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.baselines.adam import Adam
from services.core.baselines.cascade import Actions, Blocks, Cascade
from services.core.baselines.modes import Mode, Schedule
from services.core.baselines.router import join, split
from services.core.baselines.standardisation import Standardisation
from services.core.labels import Labels
from services.core.protocol.roles import Role

Matrix = NDArray[np.float64]
# (problem, turns) -> reward in [0, 1] and cost.
Outcome = Callable[[int, Schedule], tuple[float, float]]


@dataclass(frozen=True)
class Settings:
    """The original's, but for more epochs: the best of them is kept.

    Attributes:
        cost_rate: reward that one unit of cost is worth; the original's 100 per USD in its script for MATH.
        baseline: whether the batch's mean utility is subtracted; the original does not. It changes no expectation.
        held_back: share of the problems that chooses the epoch.
    """

    cost_rate: float = 100.0
    rate: float = 0.01
    batch: int = 16
    epochs: int = 20
    baseline: bool = True
    held_back: float = 0.2


@dataclass(frozen=True)
class Trial:
    """One question, answered once.

    Attributes:
        state: standardised, shape (d,).
        actions: what was drawn.
        reward: in [0, 1].
        cost: in the currency of ``Settings.cost_rate``.
    """

    state: NDArray[np.float64]
    actions: Actions
    reward: float
    cost: float

    def utility(self, cost_rate: float) -> float:
        return self.reward - cost_rate * self.cost


class MasRouterPolicy:
    """A trained cascade: the same parameters, state and generator give the same schedule."""

    def __init__(self, parameters: NDArray[Any], cascade: Cascade) -> None:
        """Read what ``train`` returned.

        Raises:
            LayoutMismatch: the vector is not one of this cascade.
        """
        shapes = {"centre": (cascade.hidden,), "scale": (cascade.hidden,), "cascade": (cascade.size,)}
        parts = split(parameters, shapes)
        self._standardised = Standardisation(parts["centre"], parts["scale"])
        self._blocks: Blocks = cascade.blocks(parts["cascade"])
        self._cascade = cascade

    def sample(self, state: NDArray[Any], rng: np.random.Generator) -> Schedule:
        """Return a schedule drawn for a question, as in training."""
        return self._cascade.schedule(self._cascade.sample(self._blocks, self._standardised.read(state), rng))

    def likeliest(self, state: NDArray[Any]) -> Schedule:
        """Return the schedule of the likeliest choice at each step; the original draws at play as well."""
        return self._cascade.schedule(self._cascade.likeliest(self._blocks, self._standardised.read(state)))


class MasRouter:
    """The cascade restricted to one answer by one model, as ``fit`` trains it."""

    def __init__(self, parameters: NDArray[Any], models: int, hidden: int) -> None:
        """Read what ``fit`` returned; raises LayoutMismatch."""
        self._policy = MasRouterPolicy(parameters, alone(models, hidden))

    def agent(self, state: NDArray[Any], rng: np.random.Generator) -> int:
        """See ``Router``; draws nothing."""
        return self._policy.likeliest(state)[0].agent


def alone(models: int, hidden: int) -> Cascade:
    """Return the cascade with one mode, one answer by one model."""
    return Cascade(models, hidden, (Mode.IO,), (Role.WORKER,), 1)


def fit(labels: Labels, seed: int, settings: Settings | None = None) -> NDArray[np.float64]:
    """Return the parameters of ``alone``, trained on what each model earned on its own; labels know no cost."""
    means = labels.means

    def outcome(problem: int, turns: Schedule) -> tuple[float, float]:
        return float(means[problem, turns[0].agent]), 0.0

    return train(alone(labels.models, labels.states.shape[1]), labels.states, outcome, seed, settings)


def train(
    cascade: Cascade, states: Matrix, outcome: Outcome, seed: int, settings: Settings | None = None
) -> NDArray[np.float64]:
    """Return centre, scale and cascade, shape (2 d + size,), of the epoch that earns most on problems held back.

    Args:
        cascade: its shape.
        states: as the encoder reads the questions alone, shape (problems, d).
        outcome: what a schedule earns and costs on a problem, given by its row; called once per problem of each epoch,
            and for every problem held back after each.
        seed: of draws, order and first parameters.
        settings: None for the original's.
    """
    chosen = settings or Settings()
    rng = seeds.generator(seed, "mas router")
    standardised = Standardisation.of(states)
    read = standardised(states)
    shuffled = rng.permutation(len(read))
    judged, training = np.split(shuffled, [max(1, round(chosen.held_back * len(read)))])
    search = Adam.start(cascade.first(rng))
    best, best_value = search.point, -np.inf
    for _ in range(chosen.epochs):
        order = rng.permutation(training)
        for rows in np.array_split(order, max(1, len(order) // chosen.batch)):
            sample = partial(cascade.sample, cascade.blocks(search.point), rng=rng)
            search = update(cascade, search, _tried(cascade, sample, read, rows, outcome), chosen)
        likeliest = partial(cascade.likeliest, cascade.blocks(search.point))
        held_back = _tried(cascade, likeliest, read, judged, outcome)
        value = float(np.mean([trial.utility(chosen.cost_rate) for trial in held_back]))
        if value > best_value + 1e-9:
            best, best_value = search.point, value
    return join(standardised.centre, standardised.scale, best)


def update(cascade: Cascade, search: Adam, trials: Sequence[Trial], settings: Settings) -> Adam:
    """Return the search one step further along mean(log-probability x utility); a pure function of its arguments."""
    utilities = np.array([trial.utility(settings.cost_rate) for trial in trials])
    if settings.baseline:
        utilities = utilities - utilities.mean()
    states = np.stack([trial.state for trial in trials])
    chosen = [trial.actions for trial in trials]
    slope = cascade.score(cascade.blocks(search.point), states, chosen, utilities / len(trials))[1]
    return search.descend(-slope, settings.rate)


def _tried(
    cascade: Cascade,
    choose: Callable[[NDArray[np.float64]], Actions],
    states: Matrix,
    rows: NDArray[np.intp],
    outcome: Outcome,
) -> list[Trial]:
    """Return what comes of a way to choose on these problems."""
    trials = []
    for row in rows:
        actions = choose(states[row])
        trials.append(Trial(states[row], actions, *outcome(int(row), cascade.schedule(actions))))
    return trials
