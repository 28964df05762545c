"""A recorded set made ready: its game, costs and answers; the game is kept in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.comparison_costs import usd
from bench.comparison_game import Float64, Game, game_of
from bench.comparison_learners import Lesson
from bench.comparison_set import RecordedSet
from bench.comparison_tree import answers, grow
from services.core.baselines.scaffold import Same
from services.core.policy.layout import Layout
from services.core.problem import Problem, Split
from services.core.protocol.review import rejected
from services.core.scoring.scorer import agree


@dataclass(frozen=True)
class Prepared:
    """A set, or the first of its questions.

    Attributes:
        recorded: campaign and models.
        problems: those that the game is about, in its order.
        game: the recorded game.
        usd: of every action, (n, roles, agents).
    """

    recorded: RecordedSet
    problems: tuple[Problem, ...]
    game: Game
    usd: Float64

    @cached_property
    def answers(self) -> tuple[tuple[str | None, ...], ...]:
        """Every model's answer to every question; all None where only scores are recorded."""
        return tuple(self._answers(problem) for problem in self.problems)

    def lesson(self, seed: int) -> Lesson:
        dealt = self.recorded.dealt(seed, self.problems)
        places = {problem.key: index for index, problem in enumerate(self.problems)}
        chosen = {split: np.array([places[one.key] for one in dealt[split]]) for split in Split}
        campaign = self.recorded.campaign
        layout = Layout.of(len(campaign.pool), campaign.protocol.roles, self.game.states.shape[1])
        families = [problem.family for problem in self.problems]
        scorers = [problem.scorer for problem in self.problems]
        training, validation, heldout = (chosen[split] for split in Split)
        return Lesson(self.game, layout, seed, training, validation, heldout, families, self.answers, scorers)

    def same(self, question: int) -> Same:
        """Return how two answers to a question are compared."""
        return lambda a, b: agree(self.problems[question].scorer, a, b)

    def _answers(self, problem: Problem) -> tuple[str | None, ...]:
        found = self.recorded.index[problem.question]
        return tuple(found.answers[served] if found.scorer else None for served in self.recorded.served)


def prepare(recorded: RecordedSet, questions: int | None, data: Path, models: Path, cache: Path) -> Prepared:
    """Return a set, or its first ``questions`` questions; states and games that ``cache`` holds are not made again.

    Args:
        recorded: the set.
        questions: how many of its row, which holds the families in proportion; None for all.
        data: the folder above ``replay``.
        models: where the encoder's weights lie or will lie.
        cache: a folder.
    """
    problems = recorded.problems[:questions]
    file = cache / f"{recorded.name}-{len(problems)}-{_digest(recorded, problems)[:12]}.npz"
    if file.is_file():
        game = Game.load(file)
    else:
        game = _game(recorded, problems, models, cache)
        game.save(file)
    return Prepared(recorded, problems, game, usd(recorded, game, [one.family for one in problems], data))


def _game(recorded: RecordedSet, problems: Sequence[Problem], models: Path, cache: Path) -> Game:
    from bench.comparison_states import StateReader  # imports torch, which a game that is at hand does without

    count = len(recorded.models)
    reader = StateReader(recorded.campaign.encoder, count, models, cache / "states.sqlite")
    trees, states, after = [], [], []
    try:
        for problem in problems:
            trees.append(grow(recorded, problem))
            states.append(reader.states(trees[-1].transcripts))
            after.append(reader.states([rejected(answer) for answer in answers(trees[-1])]))
    finally:
        reader.close()
    return game_of(trees, states, np.stack(after), count)


def _digest(recorded: RecordedSet, problems: Sequence[Problem]) -> str:
    """Return what names the game: all that decides trees and states."""
    answers = [recorded.index[problem.question] for problem in problems]
    campaign = recorded.campaign
    told = (recorded.models, campaign.protocol, campaign.encoder, problems, answers)
    return hashlib.sha256(repr(told).encode()).hexdigest()
