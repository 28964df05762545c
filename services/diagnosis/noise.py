"""How much of the fitness is luck, and what that takes away from the search's steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
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
    """The variance components with what they are estimated from.

    Attributes:
        squares: mean squares, shape (generations, 3).
        ends: the components at both ends of the reliability's bootstrap interval over generations; none when there are
            too few generations.
    """

    components: Components
    squares: NDArray[np.float64]
    ends: tuple[Components, ...]


def measure(evidence: Evidence) -> Noise | None:
    """Return the variance components of the campaign's rewards; None without enough of them."""
    rewards = evidence.trace.rewards
    if not rewards or min(rewards[0].shape) < 2:
        return None
    squares = variance.mean_squares(rewards, crossed=evidence.crossed)
    ends = _ends(evidence, squares) if len(squares) >= figures.FEWEST_CLUSTERS else ()
    return Noise(_components(evidence, squares), squares, ends)


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
    size = evidence.search.population
    return attenuation.of_recombination(size, components.signal_sd, components.noise_sd or 1e-9, evidence.seed)


def trials_of(evidence: Evidence) -> int:
    """Return how many vectors random search could have tried with the search's training episodes."""
    search = evidence.search
    return random_trials(search.replicates, search.population, evidence.generations, TRIALS_EACH)


def eta(evidence: Evidence, components: Components) -> float:
    """Return the ratio of the attenuations of strategy and random search."""
    noise_sd = math.sqrt(components.noise / TRIALS_EACH) or 1e-9
    picked = attenuation.of_random_search(trials_of(evidence), components.signal_sd, noise_sd, evidence.seed)
    return math.sqrt(ranking(evidence, components).squared / picked)


def between_ends(name: str, of: Callable[[Components], float], noise: Noise, remark: str) -> Figure:
    """Return a function of the components, with its values at the ends of the reliability's interval."""
    value, n = of(noise.components), noise.components.generations
    ends = [of(each) for each in noise.ends]
    if not ends:
        return Figure(name, value, n=n, of="generations", remark=remark)
    return Figure(name, value, min(value, *ends), max(value, *ends), n, "generations", remark)


def _attenuations(evidence: Evidence, noise: Noise) -> list[Figure]:
    middle = ranking(evidence, noise.components)
    floor = f"pure noise gives {middle.floor:.3f}, not 0"
    if middle.squared < 2 * middle.floor:
        floor += "; this is within twice that floor: read the signed ratio"
    return [
        between_ends(
            "rank attenuation, squared (CMA)", lambda each: ranking(evidence, each).squared, noise, floor
        ),
        between_ends(
            "rank attenuation, signed", lambda each: ranking(evidence, each).signed, noise,
            "progress relative to an exact ranking; pure noise gives 0",
        ),
        between_ends(
            "eta, strategy over random search", lambda each: eta(evidence, each), noise,
            f"same noise model, random search of {trials_of(evidence):,} vectors with {TRIALS_EACH} episodes each",
        ),
    ]  # fmt: skip


def _ends(evidence: Evidence, squares: NDArray[np.float64]) -> tuple[Components, Components]:
    rng = seeds.generator(evidence.seed, "reliability")
    count = len(squares)
    drawn = [_components(evidence, squares[rng.integers(0, count, count)]) for _ in range(400)]
    drawn.sort(key=lambda each: each.reliability)
    return drawn[10], drawn[-11]
