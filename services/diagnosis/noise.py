"""How much of the fitness is luck, and what that takes away from the search's steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.statistics import attenuation, variance
from services.core.statistics.attenuation import Attenuation
from services.core.statistics.theory import random_trials
from services.core.statistics.variance import Components
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Figure, Section, missing

TITLE = "Fitness noise"
TRIALS_EACH = 32  # the paper's random search plays so many episodes per vector
TOO_SMALL = "needs a closed generation of two candidates with two replicates each"


@dataclass(frozen=True)
class Noise:
    """The variance components with what they are estimated from."""

    components: Components
    squares: NDArray[np.float64]


def measure(evidence: Evidence) -> Noise | None:
    """Return the variance components of the campaign's rewards; None without enough of them."""
    rewards = evidence.trace.rewards
    if not rewards or min(rewards[0].shape) < 2:
        return None
    squares = variance.mean_squares(rewards, crossed=evidence.crossed)
    return Noise(_components(evidence, squares), squares)


def section(evidence: Evidence, noise: Noise | None) -> Section:
    if noise is None:
        return Section(TITLE, (missing("variance between candidates", TOO_SMALL),))
    return Section(TITLE, (*_variances(evidence, noise), *_halves(evidence), *_attenuations(evidence, noise)))


def _components(evidence: Evidence, squares: NDArray[np.float64]) -> Components:
    candidates, replicates = evidence.trace.rewards[0].shape
    return variance.components(squares, candidates, replicates, crossed=evidence.crossed)


def _variances(evidence: Evidence, noise: Noise) -> list[Figure]:
    layout = "problems crossed with candidates" if evidence.crossed else "each candidate its own problems"
    wanted = {
        "variance between candidates": ("between", f"true fitness; unbiased, so it can be negative; {layout}"),
        "variance within candidates": ("noise", "of single rewards, what disturbs the ranking"),
        "reliability of fitness": ("reliability", "share of its variance that is the candidates'"),
    }
    if evidence.crossed:
        wanted["variance between problems"] = ("problem", "shared by all candidates, so it disturbs no ranking")
    n, seed = len(noise.squares), evidence.seed
    return [
        figures.clustered(name, _component(evidence, noise, field), n, seed, "generations", remark)
        for name, (field, remark) in wanted.items()
    ]


def _component(evidence: Evidence, noise: Noise, field: str) -> Callable[[NDArray[np.intp]], float]:
    return lambda chosen: float(getattr(_components(evidence, noise.squares[chosen]), field))


def _halves(evidence: Evidence) -> list[Figure]:
    """Split-half reliability; a second way to the same figure, without the assumptions of the analysis of variance."""
    products = variance.half_products(evidence.trace.rewards, evidence.seed)
    of_halves = figures.clustered(
        "split-half correlation of fitness",
        lambda chosen: variance.split_half(products[:, chosen]),
        products.shape[1],
        evidence.seed,
        "generations",
    )
    whole = figures.clustered(
        "reliability by Spearman-Brown",
        lambda chosen: variance.spearman_brown(variance.split_half(products[:, chosen])),
        products.shape[1],
        evidence.seed,
        "generations",
        "from the split-half correlation",
    )
    return [of_halves, whole]


def ranking(evidence: Evidence, components: Components) -> Attenuation:
    """Return the attenuation of the search's recombination under the measured noise."""
    size = evidence.campaign.search.population
    return attenuation.of_recombination(size, components.signal_sd, components.noise_sd or 1e-9, evidence.seed)


def eta(evidence: Evidence, components: Components, found: Attenuation) -> tuple[float, int]:
    """Return the ratio of the attenuations of strategy and random search, and how many vectors the latter tries."""
    search = evidence.campaign.search
    trials = random_trials(search.replicates, search.population, evidence.generations, TRIALS_EACH)
    noise_sd = math.sqrt(components.noise / TRIALS_EACH) or 1e-9
    picked = attenuation.of_random_search(trials, components.signal_sd, noise_sd, evidence.seed)
    return math.sqrt(found.squared / picked), trials


def _attenuations(evidence: Evidence, noise: Noise) -> list[Figure]:
    candidates, n = noise.components, noise.components.generations
    low, high = _bounds(evidence, noise)
    middle = ranking(evidence, candidates)
    at = [ranking(evidence, each) for each in (low, high)] if n >= figures.FEWEST_CLUSTERS else []
    floor = f"pure noise gives {middle.floor:.3f}, not 0"
    if middle.squared < 2 * middle.floor:
        floor += "; this is within twice that floor: read the signed ratio"
    ratio, trials = eta(evidence, candidates, middle)
    return [
        _spread("rank attenuation, squared (CMA)", middle.squared, [each.squared for each in at], n, floor),
        _spread(
            "rank attenuation, signed", middle.signed, [each.signed for each in at], n,
            "progress relative to an exact ranking; pure noise gives 0",
        ),
        Figure(
            "eta, strategy over random search", ratio, n=n, of="generations",
            remark=f"same noise model, random search of {trials:,} vectors with {TRIALS_EACH} episodes each",
        ),
    ]  # fmt: skip


def _bounds(evidence: Evidence, noise: Noise) -> tuple[Components, Components]:
    """Return the components at the ends of the reliability's bootstrap distribution over generations."""
    rng = np.random.default_rng(evidence.seed % 2**32)
    count = len(noise.squares)
    drawn = [_components(evidence, noise.squares[rng.integers(0, count, count)]) for _ in range(400)]
    drawn.sort(key=lambda each: each.reliability)
    return drawn[10], drawn[-11]


def _spread(name: str, value: float, ends: list[float], n: int, remark: str) -> Figure:
    if not ends:
        return Figure(name, value, n=n, of="generations", remark=remark)
    return Figure(name, value, min(value, *ends), max(value, *ends), n, "generations", remark)
