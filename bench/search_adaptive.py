"""Dropping bad candidates before all their replicates are spent: does it save draws without costing value?

All rules train for the same 80 generations with our default settings. In a round every candidate that is still in gets
so many replicates more, the same states for all; then some are dropped. Those rank below the ones that stayed, by the
round in which they fell and by what they had until then. Only the better half moves the mean, so only the worse half
can be dropped for nothing. The rivals of a rule are fewer replicates for everybody, and fewer generations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.search_objectives import Float64, Kinds, Objective
from bench.search_runs import DRAWS, POPULATION, REPLICATES, settings_for
from services.core import seeds
from services.core.statistics.intervals import mean_interval, paired_difference

PARENTS = POPULATION // 2
GENERATIONS = DRAWS // (POPULATION * REPLICATES)


@dataclass(frozen=True)
class Rule:
    """How replicates are spent.

    Attributes:
        rounds: replicates that the remaining candidates have after each round.
        keep: candidates that stay after each round but the last.
        margin: with it, of the candidates below ``keep`` only those are dropped whose mean is further below the
            last parent's than so many standard errors of a difference.
        generations: how many.
    """

    rounds: tuple[int, ...] = (REPLICATES,)
    keep: tuple[int, ...] = ()
    margin: float | None = None
    generations: int = GENERATIONS


UNIFORM = "all 16 replicates"
RULES: dict[str, Rule] = {
    UNIFORM: Rule(),
    "11 replicates for all": Rule((11,)),
    "8 replicates for all": Rule((8,)),
    "16 replicates, 55 generations": Rule(generations=55),
    "4, 8, 16: keep 24, 16": Rule((4, 8, 16), (24, 16)),
    "4, 16: keep 16": Rule((4, 16), (16,)),
    "4, 8, 16: keep 16, 8": Rule((4, 8, 16), (16, 8)),
    "4, 8, 16: below by 1 s.e.": Rule((4, 8, 16), (PARENTS, PARENTS), 1.0),
    "4, 8, 16: below by 0.5 s.e.": Rule((4, 8, 16), (PARENTS, PARENTS), 0.5),
}


def fitness(objective: Objective, samples: Float64, rule: Rule, noise: np.random.Generator) -> tuple[Float64, int]:
    """Return what the search is told, (candidates,), and the draws it took; only the order means anything."""
    common = settings_for(objective).common
    totals = np.zeros(len(samples))
    told = np.zeros(len(samples))
    inside = np.arange(len(samples))
    spent, draws = 0, 0
    for number, replicates in enumerate(rule.rounds):
        more = replicates - spent
        totals[inside] += more * objective.fitness(samples[inside], more, noise, common)
        spent, draws = replicates, draws + more * len(inside)
        means = totals[inside] / replicates
        told[inside] = number + means / 2  # a later round is above every mean of an earlier one
        if number < len(rule.keep):
            inside = inside[_stay(means, rule.keep[number], replicates, rule.margin, noise)]
    return told, draws


def train(objective: Objective, seed: int, rule: Rule) -> tuple[float, int]:
    """Return the true value of the last mean and the draws of the whole run."""
    search = settings_for(objective).search(objective, seed)
    noise, draws = seeds.generator(seed, "bench", "noise"), 0
    for _ in range(rule.generations):
        told, took = fitness(objective, search.ask(), rule, noise)
        search.tell(told)
        draws += took
    return objective.value(search.mean), draws


def adaptive(instances: Sequence[int], n: int, kinds: Kinds) -> dict[str, Any]:
    """Return value and share of draws for every rule, and the paired difference to spending all replicates."""
    result: dict[str, Any] = {"instances": len(instances)}
    for name, kind in kinds.items():
        objectives = [(seed, kind(n, seed)) for seed in instances]
        runs = {key: [train(objective, seed, rule) for seed, objective in objectives] for key, rule in RULES.items()}
        whole = [value for value, _ in runs[UNIFORM]]
        result[name] = {key: _told(found, whole) for key, found in runs.items()}
    return result


def _stay(
    means: Float64, keep: int, replicates: int, margin: float | None, noise: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the places of those that stay, ascending; ties in random order."""
    order = np.lexsort((noise.permutation(len(means)), -means))
    if margin is not None and len(means) > keep:
        chance = means.mean()
        error = math.sqrt(2 * max(chance * (1 - chance), 1 / replicates**2) / replicates)
        keep = max(keep, int((means >= means[order[keep - 1]] - margin * error).sum()))
    return np.sort(order[:keep])


def _told(found: Sequence[tuple[float, int]], whole: Sequence[float]) -> dict[str, Any]:
    values = [value for value, _ in found]
    mean, gap = mean_interval(values, 0), paired_difference(values, whole, 0)
    return {
        "j": round(mean.estimate, 4),
        "draws": round(sum(draws for _, draws in found) / len(found) / DRAWS, 3),
        "minus_all": [round(number, 4) for number in (gap.estimate, gap.low, gap.high)],
    }
