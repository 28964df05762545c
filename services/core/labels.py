"""What every pool model answered on its own to the labelled training problems, and how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Labels:
    """The table that classifiers, routers and supervised learners are fitted to.

    Attributes:
        states: what the coordinator's encoder reads of each question alone, shape (problems, d).
        rewards: shape (problems, models, repeats), each in [0, 1].
        families: each problem's family.
        answers: each model's first final answer to each problem, None where it gave none.
    """

    states: NDArray[np.float64]
    rewards: NDArray[np.float64]
    families: Sequence[str]
    answers: Sequence[Sequence[str | None]]

    def __post_init__(self) -> None:
        sizes = {len(self.states), len(self.rewards), len(self.families), len(self.answers)}
        if self.states.ndim != 2 or self.rewards.ndim != 3 or len(sizes) != 1:
            raise ValueError(
                f"got states {self.states.shape}, rewards {self.rewards.shape}, {len(self.families)} families and "
                f"{len(self.answers)} rows of answers; wanted as many of each"
            )

    @property
    def models(self) -> int:
        return int(self.rewards.shape[1])

    def among(self, agents: Sequence[int]) -> Labels:
        """Return the labels of these models alone, in this order."""
        places = list(agents)
        answers = [[row[place] for place in places] for row in self.answers]
        return Labels(self.states, self.rewards[:, places], self.families, answers)

    @property
    def means(self) -> NDArray[np.float64]:
        """Return each model's mean reward per problem, shape (problems, models)."""
        found: NDArray[np.float64] = self.rewards.mean(axis=2)
        return found
