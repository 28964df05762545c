"""What every pool model answered on its own to the labelled training problems, and how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.problem import ScorerKind
from services.core.scoring.scorer import agree


@dataclass(frozen=True)
class Reviews:
    """What it takes to tell what would follow if models reviewed each other's first answers.

    Attributes:
        answered: what the encoder reads of a question with each model's answer, float32 (problems, models, d).
        rejected: the same with a review that rejects the answer, likewise.
        scorers: what compares answers to each problem.
    """

    answered: NDArray[np.float32]
    rejected: NDArray[np.float32]
    scorers: Sequence[ScorerKind]

    def among(self, places: list[int]) -> Reviews:
        return Reviews(self.answered[:, places], self.rejected[:, places], self.scorers)


@dataclass(frozen=True)
class Labels:
    """The table that classifiers, routers and supervised learners are fitted to.

    Attributes:
        states: what the coordinator's encoder reads of each question alone, shape (problems, d).
        rewards: shape (problems, models, repeats), each in [0, 1].
        families: each problem's family.
        answers: each model's first final answer to each problem, None where it gave none.
        reviews: where a team is fitted to them.
    """

    states: NDArray[np.float64]
    rewards: NDArray[np.float64]
    families: Sequence[str]
    answers: Sequence[Sequence[str | None]]
    reviews: Reviews | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.states), len(self.rewards), len(self.families), len(self.answers)}
        if self.states.ndim != 2 or self.rewards.ndim != 3 or len(sizes) != 1:
            raise ValueError(
                f"got states {self.states.shape}, rewards {self.rewards.shape}, {len(self.families)} families and "
                f"{len(self.answers)} rows of answers; wanted as many of each"
            )
        wanted = (*self.rewards.shape[:2], self.states.shape[1])
        if self.reviews is not None and {self.reviews.answered.shape, self.reviews.rejected.shape} != {wanted}:
            raise ValueError(f"got reviews of {self.reviews.answered.shape} states, wanted {wanted}")

    @property
    def models(self) -> int:
        return int(self.rewards.shape[1])

    def among(self, agents: Sequence[int]) -> Labels:
        """Return the labels of these models alone, in this order."""
        places = list(agents)
        answers = [[row[place] for place in places] for row in self.answers]
        reviews = None if self.reviews is None else self.reviews.among(places)
        return Labels(self.states, self.rewards[:, places], self.families, answers, reviews)

    def agreement(self) -> NDArray[np.bool_]:
        """Return whether two models' first answers are the same, shape (problems, models, models).

        Raises:
            ValueError: the labels have no reviews.
        """
        if self.reviews is None:
            raise ValueError("got labels without reviews, whose scorers compare answers")
        rows = zip(self.reviews.scorers, self.answers, strict=True)
        return np.array([[[agree(scorer, a, b) for b in row] for a in row] for scorer, row in rows], dtype=np.bool_)

    @property
    def means(self) -> NDArray[np.float64]:
        """Return each model's mean reward per problem, shape (problems, models)."""
        found: NDArray[np.float64] = self.rewards.mean(axis=2)
        return found
