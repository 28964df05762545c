"""What every model of a pool is worth on every question, one answer or several of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SOLVED = 0.5  # mean reward from which on a model is said to solve a question


@dataclass(frozen=True)
class Answered:
    """The reward of one answer of one model."""

    question: str
    family: str
    model: str
    reward: float


@dataclass(frozen=True)
class OutcomeTable:
    """Rewards without holes.

    Attributes:
        models: names, each once.
        families: each question's family.
        rewards: shape (questions, models, repeats), each in [0, 1].
        states: what an encoder reads of each question, shape (questions, d); None where nobody read them.
    """

    models: tuple[str, ...]
    families: tuple[str, ...]
    rewards: NDArray[np.float64]
    states: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.rewards.ndim != 3 or not self.rewards.size or self.rewards.shape[:2] != self._wanted:
            raise ValueError(f"got rewards of shape {self.rewards.shape}, wanted {self._wanted} and repeats")
        if len(set(self.models)) != len(self.models):
            raise ValueError(f"got the models {', '.join(self.models)}, wanted each once")
        if not ((self.rewards >= 0) & (self.rewards <= 1)).all():
            raise ValueError("got a reward outside [0, 1]")
        if self.states is not None and (self.states.ndim != 2 or len(self.states) != self.questions):
            raise ValueError(f"got states of shape {self.states.shape}, wanted one for each of {self.questions}")

    @property
    def _wanted(self) -> tuple[int, int]:
        return len(self.families), len(self.models)

    @property
    def questions(self) -> int:
        return len(self.families)

    @property
    def repeats(self) -> int:
        return int(self.rewards.shape[2])

    @property
    def means(self) -> NDArray[np.float64]:
        """Return every model's mean reward on each question, shape (questions, models)."""
        found: NDArray[np.float64] = self.rewards.mean(axis=2)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Return the families, each once, in alphabetical order."""
        return tuple(sorted(set(self.families)))

    @property
    def groups(self) -> NDArray[np.intp]:
        """Return each question's family as a row of ``names``, shape (questions,)."""
        place = {name: index for index, name in enumerate(self.names)}
        return np.array([place[family] for family in self.families], dtype=np.intp)

    def weights(self, *, by_family: bool) -> NDArray[np.float64]:
        """Return what each question counts, shape (questions,), adding up to 1: all alike, or all families alike."""
        groups = self.groups
        sizes = np.bincount(groups) if by_family else np.full(len(self.names), self.questions)
        found: NDArray[np.float64] = 1.0 / (sizes[groups] * (len(sizes) if by_family else 1))
        return found

    def only(self, models: Sequence[int]) -> OutcomeTable:
        """Return the table of these models alone."""
        chosen = list(models)
        return replace(self, models=tuple(self.models[each] for each in chosen), rewards=self.rewards[:, chosen])

    def without(self, model: int) -> OutcomeTable:
        return self.only([each for each in range(len(self.models)) if each != model])

    def disagreement(self) -> NDArray[np.float64]:
        """Return for each two models the share of answers that are worth something else, shape (models, models)."""
        columns = self.rewards.transpose(1, 0, 2).reshape(len(self.models), -1)
        return np.array([(columns != own).mean(axis=1) for own in columns])

    def alone(self) -> NDArray[np.intp]:
        """Return how many questions each model solves that no other model solves, shape (models,)."""
        solved = self.means >= SOLVED
        found: NDArray[np.intp] = (solved & (solved.sum(axis=1, keepdims=True) == 1)).sum(axis=0)
        return found


@dataclass(frozen=True)
class Tabulated:
    """A table and what did not go into it.

    Attributes:
        keys: each question's key.
        incomplete: questions that some model did not answer.
        surplus: answers beyond what every model gave to every question.
    """

    table: OutcomeTable
    keys: tuple[str, ...]
    incomplete: int
    surplus: int


def tabulate(answers: Iterable[Answered], models: Sequence[str]) -> Tabulated:
    """Arrange single answers into a table, questions and models in the order of their appearance.

    A question counts when every model answered it: unknown is not zero. All models and questions get as many answers
    as the least answered has.

    Raises:
        ValueError: no question that every model answered, or one question in two families.
    """
    cells: dict[str, dict[str, list[float]]] = {}
    families: dict[str, str] = {}
    for each in answers:
        if families.setdefault(each.question, each.family) != each.family:
            raise ValueError(
                f"question {each.question} is in two families, {families[each.question]} and {each.family}"
            )
        cells.setdefault(each.question, {}).setdefault(each.model, []).append(each.reward)
    keys = [key for key, own in cells.items() if all(own.get(model) for model in models)]
    if not keys:
        raise ValueError(f"no question is answered by all of {len(models)} models")
    repeats = min(len(cells[key][model]) for key in keys for model in models)
    rewards = np.array([[cells[key][model][:repeats] for model in models] for key in keys], dtype=np.float64)
    table = OutcomeTable(tuple(models), tuple(families[key] for key in keys), rewards)
    given = sum(len(cells[key][model]) for key in keys for model in models)
    return Tabulated(table, tuple(keys), len(cells) - len(keys), given - rewards.size)
