"""Labels of toy problems whose best routing is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.labels import Labels


@dataclass(frozen=True)
class Toy:
    """Questions in groups of their states, each group with one good model.

    Attributes:
        labels: drawn rewards, 0 or 1.
        worth: every model's true chance on every question, shape (problems, models).
    """

    labels: Labels
    worth: NDArray[np.float64]

    def value(self, chosen: list[int]) -> float:
        """Return the expected reward of these choices, one per question."""
        return float(self.worth[np.arange(len(chosen)), chosen].mean())

    @property
    def best(self) -> float:
        return float(self.worth.max(axis=1).mean())

    @property
    def best_single(self) -> float:
        return float(self.worth.mean(axis=0).max())


def grouped(
    *,
    problems: int = 300,
    models: int = 4,
    hidden: int = 12,
    seed: int = 0,
    good: float = 0.9,
    poor: float = 0.3,
    repeats: int = 1,
    offset: float = 50.0,
) -> Toy:
    """Return a toy problem with as many groups as models; group g's good model is models - 1 - g.

    Args:
        problems: questions.
        models: of the pool.
        hidden: d.
        seed: of states and rewards.
        good: a group's good model's chance to be right.
        poor: the others' chance.
        repeats: answers per question and model.
        offset: what all states have in common, many times what tells them apart, as language models' states do.
    """
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((models, hidden))
    groups = rng.integers(models, size=problems)
    states = (offset + centres[groups] + rng.standard_normal((problems, hidden))).astype(np.float32)
    worth = np.full((problems, models), poor)
    worth[np.arange(problems), models - 1 - groups] = good
    rewards = (rng.random((problems, models, repeats)) < worth[:, :, None]).astype(np.float64)
    answers = [["right" if reward else f"wrong {rng.integers(1000)}" for reward in row] for row in rewards[:, :, 0]]
    return Toy(Labels(states.astype(np.float64), rewards, [f"group {group}" for group in groups], answers), worth)
