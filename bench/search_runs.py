"""One run of each method on an objective, at the same number of draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import cma
import numpy as np

from bench.search_objectives import Common, Float64, Objective, SyntheticHead
from services.config.presets import PRESETS, RECOMMENDED_NAME
from services.core import seeds
from services.core.campaign import HeadSpec, StepSize
from services.core.learners import ReinforceSpec
from services.core.optimiser.batch import Batch
from services.core.optimiser.ports import Search
from services.core.optimiser.random_search import RandomSearch
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.sep_cma_es import SepCmaEs
from services.core.policy.layout import Layout
from services.core.protocol.roles import ROLE_ORDER
from services.core.states import Purpose

DRAWS, POPULATION, REPLICATES = 40_960, 32, 16
TRIALS = 32  # of each vector of random search (paper, appendix A.5)
LOGIT_SIGMA = 5.0  # ours on a head, in units of a logit
PUBLIC_SIGMA = 0.1  # the others' on B
BLOCK_SIGMA = 0.3  # everybody's on A
VALIDATION = 300  # problems, as the authors
DEFAULTS = PRESETS[RECOMMENDED_NAME]["search"]
STEP_SIZE = StepSize(DEFAULTS["step_size"])


@dataclass(frozen=True)
class Settings:
    """Of our search; the defaults are those of the preset ``recommended``."""

    sigma0: float
    step_size: StepSize = STEP_SIZE
    mean_rate: float = DEFAULTS["mean_rate"]
    antithetic: bool = DEFAULTS["antithetic"]
    common: Common = Common.STATES

    def search(self, objective: Objective, seed: int) -> SepCmaEs:
        return SepCmaEs(
            seed, objective.dimension, POPULATION, self.sigma0, None, self.step_size, self.mean_rate, self.antithetic
        )


@dataclass(frozen=True)
class Found:
    """What a run ends with.

    Attributes:
        value: true value of the mean that the search ended with, or of random search's champion.
        released: true value of the mean that validation chose, as the policy that is played.
        reported: its validation score.
        claimed: highest fitness that any candidate ever had.
        luckiest: true value of that candidate.
        draws: training draws.
    """

    value: float
    released: float = math.nan
    reported: float = math.nan
    claimed: float = math.nan
    luckiest: float = math.nan
    draws: int = DRAWS


def settings_for(objective: Objective, common: Common = Common.STATES) -> Settings:
    """Return our default settings on an objective."""
    sigma0 = LOGIT_SIGMA / objective.length if isinstance(objective, SyntheticHead) else BLOCK_SIGMA
    return Settings(sigma0, common=common)


def ours(objective: Objective, seed: int, settings: Settings | None = None) -> Found:
    """Run our search as the product would: means are validated every so many generations, the best is released."""
    chosen = settings or settings_for(objective)
    search = chosen.search(objective, seed)
    noise = seeds.generator(seed, "bench", "noise")
    score = objective.validation(VALIDATION, seeds.generator(seed, "bench", str(Purpose.VALIDATION)))
    every = PRESETS[RECOMMENDED_NAME]["validation"]["every"]
    validated: list[tuple[float, int, Float64]] = []
    best, luckiest = -math.inf, search.mean
    while search.generation < DRAWS // (POPULATION * REPLICATES):
        if search.generation % every == 0:
            validated.append((score(search.mean), search.generation, search.mean))
        samples = search.ask()
        fitness = objective.fitness(samples, REPLICATES, noise, chosen.common)
        if fitness.max() > best:
            best, luckiest = float(fitness.max()), samples[int(fitness.argmax())]
        search.tell(fitness)
    validated.append((score(search.mean), search.generation, search.mean))
    reported, _, mean = max(validated, key=lambda one: one[:2])  # the latest on ties
    return Found(objective.value(search.mean), objective.played(mean), reported, best, objective.value(luckiest))


def public_cma(objective: Objective, seed: int) -> Found:
    """Run pycma as it comes, diagonal."""
    options = {"popsize": POPULATION, "CMA_diagonal": True, "seed": seed + 1, "verbose": -9, "verb_log": 0}
    strategy = cma.CMAEvolutionStrategy(np.zeros(objective.dimension), _public_sigma(objective), options)
    noise = seeds.generator(seed, "bench", "noise")
    for _ in range(DRAWS // (POPULATION * REPLICATES)):
        samples = strategy.ask()
        fitness = objective.fitness(np.array(samples), REPLICATES, noise, Common.NOTHING)
        strategy.tell(samples, (-fitness).tolist())
    return Found(objective.value(np.asarray(strategy.mean)))


def public_cmaes(objective: Objective, seed: int) -> Found:
    """Run the package cmaes' SepCMA as it comes."""
    from cmaes import SepCMA

    zeros, sigma = np.zeros(objective.dimension), _public_sigma(objective)
    strategy = SepCMA(mean=zeros, sigma=sigma, population_size=POPULATION, seed=seed)
    noise = seeds.generator(seed, "bench", "noise")
    for _ in range(DRAWS // (POPULATION * REPLICATES)):
        samples = np.array([strategy.ask() for _ in range(POPULATION)])
        fitness = objective.fitness(samples, REPLICATES, noise, Common.NOTHING)
        strategy.tell([(sample, -float(value)) for sample, value in zip(samples, fitness, strict=True)])
    return Found(objective.value(np.asarray(strategy.mean)))


def random_search(objective: Objective, seed: int) -> Found:
    """Run the product's random search with the paper's box and trials."""
    search: Search = RandomSearch(seed, objective.dimension, POPULATION)
    noise = seeds.generator(seed, "bench", "noise")
    best = -math.inf
    for _ in range(DRAWS // (POPULATION * TRIALS)):
        fitness = objective.fitness(search.ask(), TRIALS, noise, Common.STATES)
        best = max(best, float(fitness.max()))
        search.tell(fitness)
    return Found(objective.value(search.mean), claimed=best)


def reinforce(objective: SyntheticHead, seed: int) -> Found:
    """Run the product's REINFORCE with Adam 1e-3 on as many episodes a generation as the search has."""
    layout = Layout(tuple(range(objective.agents)), ROLE_ORDER, objective.width, (), HeadSpec())
    learner = Reinforce(seed, layout, ReinforceSpec(rate=1e-3))
    noise = seeds.generator(seed, "bench", "noise")
    episodes = POPULATION * REPLICATES
    for _ in range(DRAWS // episodes):
        learner.tell_batch(episodes_of(objective, learner.mean, episodes, noise))
    return Found(objective.value(learner.mean))


def episodes_of(objective: SyntheticHead, theta: Float64, count: int, noise: np.random.Generator) -> Batch:
    """Play single-turn episodes on fresh states."""
    context, states = objective.states(noise, count)
    actions, rewards = objective.play(theta[np.newaxis], context, states, noise.random((1, 3, count)))
    each = np.arange(count)
    return Batch(states.astype(np.float32), actions[0][0], actions[1][0], each, rewards[0].astype(np.float64), each)


def methods(objective: Objective) -> Iterator[tuple[str, Callable[[int], Found]]]:
    """Yield the rivals' names and runs on an objective; each takes a seed."""
    yield "pycma", lambda seed: public_cma(objective, seed)
    if find_spec("cmaes") is not None:
        yield "cmaes", lambda seed: public_cmaes(objective, seed)
    yield "random search", lambda seed: random_search(objective, seed)
    if isinstance(objective, SyntheticHead):
        yield "reinforce", lambda seed: reinforce(objective, seed)


def _public_sigma(objective: Objective) -> float:
    return PUBLIC_SIGMA if isinstance(objective, SyntheticHead) else BLOCK_SIGMA
