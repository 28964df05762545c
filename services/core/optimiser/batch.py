"""What a learner that follows the policy gradient sees of a generation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """The decisions of a generation's training episodes, one after the other, in an order that is always the same.

    Attributes:
        states: what was read before each decision, shape (decisions, d).
        agents: row among the layout's agents, shape (decisions,).
        roles: row among the layout's roles, shape (decisions,); -1 where the policy did not choose the role.
        episodes: to which episode each decision belongs, shape (decisions,).
        rewards: shape (episodes,), each in [0, 1].
        problems: which problem each episode is about, shape (episodes,).

    Raises:
        ValueError: the shapes do not fit together, a number is not finite, or an episode has no decision.
    """

    states: NDArray[np.float32]
    agents: NDArray[np.intp]
    roles: NDArray[np.intp]
    episodes: NDArray[np.intp]
    rewards: NDArray[np.float64]
    problems: NDArray[np.intp]

    def __post_init__(self) -> None:
        decisions, episodes = len(self.states), len(self.rewards)
        fits = self.states.ndim == 2 and self.agents.shape == self.roles.shape == self.episodes.shape == (decisions,)
        if not fits or self.rewards.shape != self.problems.shape or self.rewards.shape != (episodes,):
            raise ValueError(
                f"got states {self.states.shape}, agents {self.agents.shape}, roles {self.roles.shape}, episodes "
                f"{self.episodes.shape}, rewards {self.rewards.shape}, problems {self.problems.shape}; wanted one "
                "entry for each decision, or for each episode"
            )
        if not np.array_equal(np.unique(self.episodes), np.arange(episodes)):
            raise ValueError(f"wanted at least one decision for each of the {episodes} episodes, and no others")
        if not (np.isfinite(self.states).all() and np.isfinite(self.rewards).all()):
            raise ValueError("a state or a reward is not a finite number")

    @property
    def turns(self) -> NDArray[np.intp]:
        """Return the number of decisions of each episode, shape (episodes,)."""
        return np.bincount(self.episodes, minlength=len(self.rewards))
