"""Training on the recorded game, with the product's own learners, minibatches and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.comparison_game import (
    ENDS,
    Float64,
    Game,
    Indices,
    Played,
    choices,
    expected,
    play,
    rewards_at_end,
    uniforms,
)
from services.core.campaign import Output, Start, StepSize
from services.core.labels import Labels, Reviews
from services.core.learners import ReinforceSpec, SupervisedSpec, Targets
from services.core.minibatch import episode_seed, fixed_seed, training_positions, validates
from services.core.optimiser.batch import Batch
from services.core.optimiser.ports import Learner
from services.core.optimiser.random_search import RandomSearch
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.sep_cma_es import SepCmaEs
from services.core.optimiser.supervised import fit_head
from services.core.policy.layout import Layout
from services.core.problem import ScorerKind
from services.core.states import Purpose

MINIBATCH = "common"


@dataclass(frozen=True)
class Budget:
    """What a learner may spend (paper, section 4.8: 32 x 16 x 60 episodes).

    Attributes:
        episodes: of training, labelling included.
        every: generations between two validations, whose episodes come on top.
    """

    episodes: int = 32 * 16 * 60
    every: int = 5


@dataclass(frozen=True)
class Lesson:
    """One seed's split of a game: where something is learnt, chosen and measured.

    Attributes:
        game: the recorded game.
        layout: of the heads.
        seed: of split and training.
        training: question numbers, likewise the other two.
        families: of all questions.
        answers: of every model to every question, None where it gave none.
        scorers: what compares answers to each question.
        fits: to its labels, which several learners start from.
    """

    game: Game
    layout: Layout
    seed: int
    training: Indices
    validation: Indices
    heldout: Indices
    families: Sequence[str]
    answers: Sequence[Sequence[str | None]]
    scorers: Sequence[ScorerKind]
    fits: dict[tuple[int | None, SupervisedSpec], Float64] = field(default_factory=dict)

    def labels(self, problems: int | None = None, *, reviews: bool = False) -> Labels:
        """Return what every model answered to the first ``problems`` training questions, and reviews of it."""
        chosen = self.training[:problems]
        return Labels(
            states=self.game.states[self.game.roots[chosen]].astype(np.float64),
            rewards=self.game.singles[chosen][:, :, None],
            families=[self.families[index] for index in chosen],
            answers=[self.answers[index] for index in chosen],
            reviews=self._reviews(chosen) if reviews else None,
        )

    def _reviews(self, chosen: Indices) -> Reviews:
        answered, rejected = self.game.answered[chosen], self.game.rejected[chosen]
        return Reviews(answered, rejected, [self.scorers[index] for index in chosen])

    def fitted(self, problems: int | None, settings: SupervisedSpec) -> Float64:
        """Return the head that is fitted to the labels of the first ``problems`` training questions."""
        key = (problems, settings)
        if key not in self.fits:
            labels = self.labels(problems, reviews=settings.targets is Targets.TEAM)
            self.fits[key] = fit_head(labels, self.layout, settings, self.seed)
        return self.fits[key]

    def with_output(self, output: Output) -> Lesson:
        """Return the same with heads whose logits become actions so."""
        return replace(self, layout=replace(self.layout, spec=replace(self.layout.spec, output=output)))


@dataclass(frozen=True)
class Course:
    """How a training went.

    Attributes:
        theta: the mean that is released: the best validated one.
        curve: (training episodes booked, validation score) of every validated mean.
        episodes: booked, without validation.
        validation_episodes: booked on top.
        sigma: the last step size.
    """

    theta: Float64
    curve: tuple[tuple[int, float], ...]
    episodes: int
    validation_episodes: int
    sigma: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """A learner with its settings.

    Attributes:
        name: in tables.
        kind: ``sep_cma_es``, ``random_search``, ``reinforce`` or ``sft``.
        start: ``zero`` or a head fitted to labels, whose episodes are booked.
        labelled: training questions that are labelled; None for all.
        replicates: episodes of a candidate in a generation.
        population: candidates in a generation.
        logit_sigma0: first step size, in units of logits of a state of median length.
        half_width: of the box of random search, in the same units.
        minibatch: as in campaign files; likewise the next two.
        output: how logits become actions, in training and afterwards.
        note: what to know about it.
    """

    name: str
    kind: str
    start: Start = Start.ZERO
    labelled: int | None = None
    replicates: int = 16
    population: int = 32
    logit_sigma0: float = 1.0
    half_width: float = 1.0
    minibatch: str = MINIBATCH
    mean_rate: float = 1.0
    antithetic: bool = False
    output: Output = Output.ARGMAX
    note: str = ""
    reinforce: ReinforceSpec = field(default_factory=ReinforceSpec)
    supervised: SupervisedSpec = field(default_factory=SupervisedSpec)

    @property
    def turns(self) -> int | None:
        """The limit of turns that it is measured with, None for the game's: single turns tell nothing about roles."""
        return 1 if self.kind == "sft" and self.supervised.targets is not Targets.TEAM else None


def train(lesson: Lesson, recipe: Recipe, budget: Budget) -> Course:
    """Train and return what is released; every call with the same arguments gives the same."""
    lesson = lesson.with_output(recipe.output)
    start, booked = None, 0
    if recipe.kind == "sft" or recipe.start is Start.SFT:
        start = lesson.fitted(recipe.labelled, recipe.supervised)
        booked = len(lesson.training[: recipe.labelled]) * len(lesson.layout.agents)
        if booked > budget.episodes:
            raise ValueError(f"{booked} labelling episodes, more than the budget's {budget.episodes}")
    if recipe.kind == "sft" and start is not None:
        score = validated(lesson, start, recipe.turns)
        return Course(start, ((booked, score),), booked, len(lesson.validation))
    learner = _learner(lesson, recipe, start)
    batch = recipe.population * recipe.replicates
    rounds = (budget.episodes - booked) // batch
    scores: dict[int, tuple[float, Float64]] = {}
    for number in range(rounds + 1):
        if validates(number, budget.every) or number == rounds:
            scores[number] = (validated(lesson, learner.mean), learner.mean)
        if number < rounds:
            _generation(lesson, recipe, learner, number)
    best = max(scores, key=lambda number: (scores[number][0], number))
    curve = tuple((booked + number * batch, score) for number, (score, _) in scores.items())
    checks = len(scores) * len(lesson.validation)
    return Course(scores[best][1], curve, booked + rounds * batch, checks, learner.sigma)


def validated(lesson: Lesson, theta: Float64, turns: int | None = None) -> float:
    """Return the mean reward of one episode on every validation problem, the same draws for every mean."""
    numbers = uniforms(
        [fixed_seed(lesson.seed, Purpose.VALIDATION, index) for index in range(len(lesson.validation))],
        lesson.game.turns,
    )
    return float(play(lesson.game, lesson.layout, theta[None], lesson.validation, numbers, turns).rewards.mean())


def heldout(lesson: Lesson, theta: Float64) -> Float64:
    """Return the expected reward of every held-out question, (questions,)."""
    chosen = choices(lesson.game, lesson.layout, theta)
    found: Float64 = expected(lesson.game, chosen, rewards_at_end(lesson.game)[..., None])[lesson.heldout, 0]
    return found


def scale(lesson: Lesson) -> float:
    """Return the median length of the states of the training questions before any turn."""
    states = lesson.game.states[lesson.game.roots[lesson.training]]
    return float(np.median(np.linalg.norm(states, axis=1)))


def _learner(lesson: Lesson, recipe: Recipe, start: Float64 | None) -> Learner:
    size, seed, unit = lesson.layout.size, lesson.seed, scale(lesson)
    if recipe.kind == "reinforce":
        return Reinforce(seed, lesson.layout, recipe.reinforce, start)
    if recipe.kind == "random_search":
        return RandomSearch(seed, size, recipe.population, recipe.half_width / unit, start)
    return SepCmaEs(
        seed,
        size,
        recipe.population,
        recipe.logit_sigma0 / unit,
        start,
        StepSize.TPA,
        recipe.mean_rate,
        recipe.antithetic,
    )


def _generation(lesson: Lesson, recipe: Recipe, learner: Learner, number: int) -> None:
    thetas = learner.ask()
    trials = recipe.population * recipe.replicates // len(thetas)
    if recipe.minibatch == MINIBATCH:
        found = _episodes(lesson, recipe, thetas, number, 0, trials)
        rewards = found.rewards
    else:
        parts = [_episodes(lesson, recipe, theta[None], number, index, trials) for index, theta in enumerate(thetas)]
        rewards = np.concatenate([part.rewards for part in parts])
    if isinstance(learner, Reinforce):
        learner.tell_batch(_batch(lesson, recipe, found, number, trials))
    elif isinstance(learner, SepCmaEs | RandomSearch):
        learner.tell(rewards.mean(axis=1))


def _episodes(lesson: Lesson, recipe: Recipe, thetas: Float64, number: int, candidate: int, trials: int) -> Played:
    questions = lesson.training[_positions(lesson, recipe, number, candidate, trials)]
    drawn = [episode_seed(lesson.seed, recipe.minibatch, number, candidate, index) for index in range(trials)]
    return play(lesson.game, lesson.layout, thetas, questions, uniforms(drawn, lesson.game.turns))


def _positions(lesson: Lesson, recipe: Recipe, number: int, candidate: int, trials: int) -> Indices:
    plays = recipe.reinforce.plays if recipe.kind == "reinforce" else 1
    count, size = max(1, trials // plays), len(lesson.training)
    positions = np.array(training_positions(lesson.seed, recipe.minibatch, number, candidate, count, size))
    return np.resize(np.repeat(positions, plays), trials)


def _batch(lesson: Lesson, recipe: Recipe, found: Played, number: int, trials: int) -> Batch:
    episodes, turns = np.nonzero(found.nodes[0] != ENDS)
    return Batch(
        states=lesson.game.states[found.nodes[0, episodes, turns]],
        agents=found.agents[0, episodes, turns],
        roles=found.roles[0, episodes, turns],
        episodes=episodes,
        rewards=found.rewards[0],
        problems=_positions(lesson, recipe, number, 0, trials),
    )
