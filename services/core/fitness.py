"""The fitness of candidates: the mean reward over their replicates, perhaps with bonuses and costs, or nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import Campaign

DIGITS = 12  # of a bonus, after the point; see ``bonus_of``


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


def has_bonuses(campaign: Campaign) -> bool:
    """Tell whether fitness depends on which agents were chosen and how often."""
    return campaign.search.entropy_bonus != 0 or campaign.search.turn_bonus != 0


def counts_cost(campaign: Campaign) -> bool:
    """Tell whether fitness depends on what episodes cost."""
    return campaign.search.cost_weight != 0


def is_shaped(campaign: Campaign) -> bool:
    """Tell whether fitness is more than the mean reward."""
    return has_bonuses(campaign) or counts_cost(campaign)


@dataclass(frozen=True)
class Effort:
    """What the training episodes of each candidate took, read only where fitness depends on it.

    Attributes:
        chosen: candidate -> agent -> turns.
        spent: candidate -> USD at list price, of the attempts that led to rewards.
    """

    chosen: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    spent: Mapping[int, Decimal] = field(default_factory=dict)


def shaped(mean_rewards: NDArray[np.float64], effort: Effort, campaign: Campaign) -> NDArray[np.float64]:
    """Return mean rewards with the campaign's bonuses and penalties; what training ranks, and nothing else.

    Args:
        mean_rewards: as ``fitness_of`` returns them, shape (population,).
        effort: of every candidate.
        campaign: its weights and its limit on turns.

    Returns:
        shape (population,).

    Raises:
        ValueError: there are bonuses and a candidate chose nobody, or costs count and one's are not known.
    """
    found = mean_rewards
    if has_bonuses(campaign):
        chosen = effort.chosen
        bonuses = [bonus_of(chosen.get(candidate, {}).values(), campaign) for candidate in range(len(found))]
        found = np.add(found, bonuses, dtype=np.float64)
    if counts_cost(campaign):
        penalties = [penalty_of(effort.spent.get(candidate), campaign) for candidate in range(len(found))]
        found = np.subtract(found, penalties, dtype=np.float64)
    return found


def penalty_of(usd: Decimal | None, campaign: Campaign) -> float:
    """Return what is taken from a candidate's mean reward for what its training episodes cost together.

    That is cost_weight x the mean USD of an episode / cost_unit_usd, rounded as a bonus is.

    Raises:
        ValueError: the cost or the unit is not known.
    """
    search = campaign.search
    if usd is None or search.cost_unit_usd is None:
        raise ValueError("it is not known what a candidate's episodes cost, or in which unit that counts")
    return round(search.cost_weight * (float(usd) / (search.trials * search.cost_unit_usd)), DIGITS)


def bonus_of(turns_by_agent: Iterable[int], campaign: Campaign) -> float:
    """Return what is added to a candidate's mean reward (authors' training code; trinity.md 5.2).

    That is entropy_bonus x the entropy of the chosen agents in nats, minus turn_bonus x ((turns - 1) / max_turns) / 4.
    ``turns`` is the total over the candidate's episodes, as in the authors' code, and no mean: with 16 episodes of 5
    turns the second term is nearly 4 turn_bonus, not 0.2 turn_bonus.

    The sum is rounded to 12 digits after the point, because logarithms differ in their last bit between processors, and
    stored fitness is compared to the bit.

    Raises:
        ValueError: no turns.
    """
    counts = [count for count in turns_by_agent if count]
    turns = sum(counts)
    if turns < 1:
        raise ValueError("a candidate's episodes have no turns, so that there is nothing to give a bonus for")
    entropy = math.fsum(count / turns * math.log(turns / count) for count in counts)
    search, penalty = campaign.search, (turns - 1) / campaign.protocol.max_turns / 4
    return round(search.entropy_bonus * entropy - search.turn_bonus * penalty, DIGITS)


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
