"""The fitness of candidates: the mean reward over their replicates, or nothing at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Outcome:
    """What one training episode came to; ``reward`` is None while it has none, also when it failed."""

    candidate: int
    replicate: int
    reward: float | None


@dataclass(frozen=True)
class Incomplete:
    """Why there is no fitness vector: the (candidate, replicate) pairs without a reward."""

    missing: tuple[tuple[int, int], ...]


def fitness_of(outcomes: Iterable[Outcome], population: int, replicates: int) -> NDArray[np.float64] | Incomplete:
    """Return the mean reward per candidate (paper, section 3.3), shape (population,), or Incomplete.

    One missing reward makes the generation incomplete: a mean over fewer replicates would have another noise, and a
    failure of the infrastructure is no statement about a candidate. The sum does not depend on the outcomes' order.

    Raises:
        ValueError: an outcome of an unknown candidate or replicate, a second of the same, a reward outside [0, 1].
    """
    rewards: dict[tuple[int, int], float] = {}
    seen: set[tuple[int, int]] = set()
    for outcome in outcomes:
        key = (outcome.candidate, outcome.replicate)
        if key in seen or not (0 <= key[0] < population and 0 <= key[1] < replicates):
            raise ValueError(f"candidate {key[0]} replicate {key[1]} is unknown or came twice")
        seen.add(key)
        if outcome.reward is not None:
            rewards[key] = _checked(outcome.reward, key)
    wanted = [(candidate, replicate) for candidate in range(population) for replicate in range(replicates)]
    missing = tuple(key for key in wanted if key not in rewards)
    if missing:
        return Incomplete(missing)
    return np.array(
        [_mean([rewards[candidate, each] for each in range(replicates)]) for candidate in range(population)]
    )


def ranks(fitness: Sequence[float] | NDArray[np.float64]) -> tuple[int, ...]:
    """Return each candidate's rank, 1 for the best; equals share the better rank."""
    ordered = sorted((float(value) for value in fitness), reverse=True)
    first: dict[float, int] = {}
    for place, value in enumerate(ordered, start=1):
        first.setdefault(value, place)
    return tuple(first[float(value)] for value in fitness)


def _checked(reward: float, key: tuple[int, int]) -> float:
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"candidate {key[0]} replicate {key[1]} has reward {reward}, wanted a number from 0 to 1")
    return reward


def _mean(rewards: Sequence[float]) -> float:
    return math.fsum(rewards) / len(rewards)
