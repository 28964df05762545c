"""Separable CMA-ES (paper, section 3.3; Ros & Hansen 2008) as the authors ran it: pycma with ``CMA_diagonal``.

Its samples come from a generator of its own, so that neither other users of numpy's global one nor the order of other
work can change them: the same seed and fitness vectors give the same bits (replay.py). The number of threads does not
matter; the processor may: numpy's linear algebra chooses its kernels by it, and one without AVX2 can differ in the last
bit.

The step size adapts as pycma chooses (two-point from 300 dimensions on, where the authors' search is, and by the
evolution path below), or by the evolution path always. At the paper's size the latter hardly moves it in 60 generations
(trinity.md 5.4); the former walks, and spends two samples of each generation on the line of the last step.

Two options go beyond the paper. The mean may take a part of each step only (c_m of Hansen's tutorial): under noise it
is better to look far and to walk little, because the part of the step that is luck shrinks with it while the samples
stay as easy to tell apart. And samples may come in antithetic pairs around the mean. Their worth: docs/search.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import cma
import numpy as np
from cma.sigma_adaptation import CMAAdaptSigmaCSA
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import StepSize
from services.core.optimiser.ports import Search
from services.core.optimiser.vectors import checked_fitness, first_mean

# Standard normal numbers in an array of the shape asked for, whose first number counts vectors.
Draw = Callable[..., NDArray[np.float64]]


def library_version() -> str:
    """Return the versions that the search's arithmetic depends on, as one text."""
    return f"cma {cma.__version__}, numpy {np.__version__}"


class SepCmaEs(Search):
    """pycma behind the Search port."""

    def __init__(
        self,
        seed: int,
        dimension: int,
        population: int,
        sigma0: float,
        start: NDArray[np.float64] | None = None,
        step_size: StepSize = StepSize.TPA,
        mean_rate: float = 1.0,
        antithetic: bool = False,
    ) -> None:
        """Start a search.

        Args:
            seed: the campaign's seed; the streams for samples and ties are derived from it.
            dimension: n, at least 2 (pycma cannot do one dimension).
            population: lambda, at least 3.
            sigma0: first step size, above 0.
            start: first mean, shape (dimension,), finite; None for zero.
            step_size: how sigma adapts.
            mean_rate: part of the recombined step that the mean takes, above 0, at most 1.
            antithetic: draw samples in pairs that mirror each other in the mean; of an odd number the last is alone.

        Raises:
            ValueError: a value outside these bounds.
        """
        if dimension < 2 or population < 3 or not (math.isfinite(sigma0) and sigma0 > 0):
            raise ValueError(
                f"got dimension {dimension}, population {population}, sigma0 {sigma0}; "
                "wanted at least 2, at least 3, and a finite number above 0"
            )
        if not 0 < mean_rate <= 1:
            raise ValueError(f"got mean_rate {mean_rate}, wanted above 0 and at most 1")
        mean = first_mean(start, dimension)
        self._seed = seed
        self._samples = seeds.generator(seed, "search", "samples")
        self._name = _name(step_size, mean_rate, antithetic)
        draw = _pairs(self._samples) if antithetic else _independent(self._samples)
        self._strategy = _strategy(mean, population, sigma0, draw, step_size, mean_rate)
        self._asked: list[NDArray[np.float64]] | None = None
        self._generation = 0
        self._checksum = self._digest()

    @property
    def dimension(self) -> int:
        return int(self._strategy.N)

    @property
    def population(self) -> int:
        return int(self._strategy.popsize)

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.array(self._strategy.mean, dtype=np.float64)

    @property
    def sigma(self) -> float:
        return float(self._strategy.sigma)

    def ask(self) -> NDArray[np.float64]:
        return np.array(self._drawn(), dtype=np.float64)

    def tell(self, fitness: NDArray[np.float64]) -> None:
        """See ``Search.tell``.

        pycma is told ranks instead of values. It uses nothing else, and so ties, which are common with few binary
        rewards, are broken by a seeded shuffle: by position they would favour the first samples, two of which lie on
        the line of the last step under two-point adaptation and steer the step size.
        """
        values = checked_fitness(fitness, self.population)
        self._strategy.tell(self._drawn(), self._loss_ranks(values))
        self._asked = None
        self._generation += 1
        self._checksum = self._digest()

    def checksum(self) -> str:
        return self._checksum

    def _drawn(self) -> list[NDArray[np.float64]]:
        if self._asked is None:
            self._asked = list(self._strategy.ask())
        return self._asked

    def _loss_ranks(self, values: NDArray[np.float64]) -> list[float]:
        """Return 0.0 for the fittest up to population - 1, ties in random order."""
        jitter = seeds.generator(self._seed, "search", "ties", self._generation).permutation(len(values))
        ranks = np.empty(len(values))
        ranks[np.lexsort((jitter, -values))] = np.arange(len(values))
        return ranks.tolist()

    def _digest(self) -> str:
        strategy = self._strategy
        scaling = np.broadcast_to(np.asarray(strategy.sigma_vec.scaling, dtype="<f8"), (self.dimension,))
        digest = hashlib.sha256(f"{self._name}|{self._generation}|{self.dimension}|{self.population}|".encode())
        digest.update(np.asarray(strategy.mean, dtype="<f8").tobytes())
        digest.update(np.asarray([strategy.sigma], dtype="<f8").tobytes())
        digest.update(np.ascontiguousarray(scaling).tobytes())
        digest.update(repr(self._samples.bit_generator.state).encode())
        return digest.hexdigest()


def _name(step_size: StepSize, mean_rate: float, antithetic: bool) -> str:
    """Return what the checksum begins with; a setting that first campaigns did not have is named where it is used."""
    parts = ["sep-cma-es 1"] + [str(step_size)] * (step_size is not StepSize.TPA)
    parts += [f"mean rate {mean_rate!r}"] * (mean_rate != 1) + ["antithetic"] * antithetic
    return " ".join(parts)


def _independent(samples: np.random.Generator) -> Draw:
    return lambda *shape: samples.standard_normal(shape)


def _pairs(samples: np.random.Generator) -> Draw:
    def draw(*shape: int) -> NDArray[np.float64]:
        count, *rest = shape
        half = samples.standard_normal((math.ceil(count / 2), *rest))
        return np.stack([half, -half], axis=1).reshape(-1, *rest)[:count]

    return draw


def _strategy(
    mean: NDArray[np.float64], population: int, sigma0: float, draw: Draw, step_size: StepSize, mean_rate: float
) -> Any:
    options = {
        "popsize": population,
        "CMA_diagonal": True,
        "AdaptSigma": CMAAdaptSigmaCSA if step_size is StepSize.CSA else True,
        "CMA_cmean": mean_rate,
        "randn": draw,
        "seed": math.nan,  # otherwise pycma seeds numpy's global generator
        "verbose": -9,
        "verb_log": 0,
    }
    strategy = cma.CMAEvolutionStrategy(mean, sigma0, options)
    # pycma's own self-check draws from numpy's global generator and only ever warns.
    strategy.adapt_sigma.check_consistency = lambda _: None
    return strategy
