"""What each of our search's settings is worth: one changed at a time, on the same instances."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from bench.search_objectives import Common, Float64, Kinds, Objective, SyntheticHead
from bench.search_runs import DRAWS, POPULATION, REPLICATES, Settings, settings_for
from services.core import seeds
from services.core.campaign import StepSize
from services.core.statistics.intervals import mean_interval, paired_difference

GENERATIONS = DRAWS // (POPULATION * REPLICATES)
DEFAULT = "recommended"


def levers(instances: Sequence[int], n: int, kinds: Kinds) -> dict[str, Any]:
    """Return the mean value with each change, and the paired difference to the recommended settings."""
    result: dict[str, Any] = {"instances": len(instances)}
    for name, kind in kinds.items():
        objectives = [(seed, kind(n, seed)) for seed in instances]
        values: dict[str, list[float]] = {}
        for lever, run in changes(objectives[0][1]):
            values[lever] = [run(objective, seed) for seed, objective in objectives]
        result[name] = {lever: _told(found, values[DEFAULT]) for lever, found in values.items()}
    return result


def changes(objective: Objective) -> Iterator[tuple[str, Callable[..., float]]]:
    """Yield the name of each change and what runs it."""
    usual = settings_for(objective)
    changed = {
        DEFAULT: usual,
        "mean_rate 1": replace(usual, mean_rate=1.0),
        "mean_rate 0.3": replace(usual, mean_rate=0.3),
        "no antithetic pairs": replace(usual, antithetic=False),
        "csa": replace(usual, step_size=StepSize.CSA),
        "sigma0 / 5": replace(usual, sigma0=usual.sigma0 / 5),
        "sigma0 x 2": replace(usual, sigma0=usual.sigma0 * 2),
        "mean_rate 1, no pairs": replace(usual, mean_rate=1.0, antithetic=False),
        "of the preset before: csa, mean_rate 1, no pairs, sigma0 / 3": replace(
            usual, step_size=StepSize.CSA, mean_rate=1.0, antithetic=False, sigma0=usual.sigma0 / 3
        ),
    }
    if isinstance(objective, SyntheticHead):
        changed |= {
            "nothing in common": replace(usual, common=Common.NOTHING),
            "seeds in common": replace(usual, common=Common.SEEDS),
        }
    for name, settings in changed.items():
        yield name, partial(last_mean, settings=settings)
    for last in (10, 20):
        yield f"average of the last {last} means", partial(last_mean, settings=usual, last=last)
    for name, weights in (("log", log_weights()), ("of all ranks", all_ranks())):
        yield f"isotropic, constant sigma, weights {name}", partial(isotropic, weights=weights)


def last_mean(objective: Objective, seed: int, settings: Settings, last: int = 1) -> float:
    """Return the true value of the average of the ``last`` means of our search."""
    search = settings.search(objective, seed)
    noise = seeds.generator(seed, "bench", "noise")
    means: list[Float64] = []
    for _ in range(GENERATIONS):
        search.tell(objective.fitness(search.ask(), REPLICATES, noise, settings.common))
        means = [*means[-last + 1 :], search.mean] if last > 1 else [search.mean]
    return objective.value(np.mean(means, axis=0))


def isotropic(objective: Objective, seed: int, weights: Float64) -> float:
    """Return the true value of a strategy that adapts nothing, with other weights for ranks, shape (candidates,)."""
    usual = settings_for(objective)
    samples, noise = seeds.generator(seed, "bench", "samples"), seeds.generator(seed, "bench", "noise")
    mean = np.zeros(objective.dimension)
    for _ in range(GENERATIONS):
        half = samples.standard_normal((POPULATION // 2, objective.dimension))
        steps = usual.sigma0 * np.concatenate([half, -half])
        fitness = objective.fitness(mean + steps, REPLICATES, noise, usual.common)
        order = np.lexsort((noise.permutation(POPULATION), -fitness))
        mean = mean + usual.mean_rate * weights @ steps[order]
    return objective.value(mean)


def log_weights() -> Float64:
    """Return CMA-ES' weights (trinity.md 5.3), best first, shape (candidates,): the worse half counts nothing."""
    ranks = np.arange(1, POPULATION + 1)
    weights = np.maximum(0.0, math.log((POPULATION + 1) / 2) - np.log(ranks))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def all_ranks() -> Float64:
    """Return normal scores (Arnold 2006), which count the worse half too, as long as ``log_weights``."""
    places = (np.arange(1, POPULATION + 1) - 0.375) / (POPULATION + 0.25)
    scores = np.array([NormalDist().inv_cdf(1 - place) for place in places])
    return np.asarray(scores * math.sqrt((log_weights() ** 2).sum() / (scores**2).sum()), dtype=np.float64)


def _told(values: Sequence[float], usual: Sequence[float]) -> dict[str, Any]:
    mean, gap = mean_interval(values, 0), paired_difference(values, usual, 0)
    return {
        "j": [round(number, 4) for number in (mean.estimate, mean.low, mean.high)],
        "minus_recommended": [round(number, 4) for number in (gap.estimate, gap.low, gap.high)],
    }
