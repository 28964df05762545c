"""What noise in the fitness takes away from a step: rank attenuation (paper, appendix A.1, definition 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core import seeds

_CHUNK_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Attenuation:
    """Attenuation of one recombination of the best half, by simulation.

    Attributes:
        squared: the paper's squared attenuation; it tends to ``floor``, not to 0, when the ranking is pure noise.
        floor: its value under pure noise.
        signed: mean progress along the true direction relative to that of an exact ranking; 0 under pure noise.
    """

    squared: float
    floor: float
    signed: float


def recombination_weights(population: int) -> NDArray[np.float64]:
    """Return the weights of the best floor(population / 2), best first, adding up to 1 (Hansen 2016, equation 49)."""
    parents = population // 2
    weights = math.log((population + 1) / 2) - np.log(np.arange(1, parents + 1))
    normal: NDArray[np.float64] = weights / weights.sum()
    return normal


def effective_parents(population: int) -> float:
    """Return mu_eff, which is 1 / sum of the squared weights."""
    return float(1 / (recombination_weights(population) ** 2).sum())


def quality_gain(population: int, seed: int, draws: int = 20_000) -> tuple[float, float]:
    """Return alpha, the mean progress of a noise-free step along the true direction, and kappa-bar.

    kappa-bar is n times the paper's alpha^2 / beta with beta = n / mu_eff, so it does not depend on n.
    """
    steps, _ = _steps(population, 1.0, 0.0, seed, draws)
    alpha = float(steps.mean())
    return alpha, alpha**2 * effective_parents(population)


def of_recombination(population: int, signal_sd: float, noise_sd: float, seed: int, draws: int = 20_000) -> Attenuation:
    """Return the attenuation when fitness is signal_sd * <u, z> plus normal noise.

    Args:
        population: lambda.
        signal_sd: of the candidates' true fitness; 0 for none.
        noise_sd: of a fitness around it.
        seed: of the simulation.
        draws: simulated generations.
    """
    noisy, exact = _steps(population, signal_sd, noise_sd, seed, draws)
    blind, _ = _steps(population, 0.0, 1.0, seed, draws)
    below = float((exact**2).mean())
    return Attenuation(
        squared=float((noisy**2).mean()) / below,
        floor=float((blind**2).mean()) / below,
        signed=float(noisy.mean() / exact.mean()),
    )


def of_random_search(trials: int, signal_sd: float, noise_sd: float, seed: int, draws: int = 4_000) -> float:
    """Return the squared attenuation of picking the best of ``trials`` vectors (paper, definition 3, RS)."""
    rng = seeds.generator(seed, "random search")
    chosen, exact = [], []
    rows = max(1, _CHUNK_NUMBERS // trials)
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        true = rng.standard_normal((count, trials))
        seen = signal_sd * true + noise_sd * rng.standard_normal((count, trials))
        chosen.append(true[np.arange(count), seen.argmax(axis=1)])
        exact.append(true.max(axis=1))
    picked, best = np.concatenate(chosen), np.concatenate(exact)
    return float((np.maximum(picked, 0.0) ** 2).mean() / (np.maximum(best, 0.0) ** 2).mean())


def _steps(
    population: int, signal_sd: float, noise_sd: float, seed: int, draws: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return progress along the true direction of ``draws`` steps: as ranked with noise, and as ranked exactly."""
    rng = seeds.generator(seed, "attenuation")
    weights = recombination_weights(population)
    true = rng.standard_normal((draws, population))
    seen = signal_sd * true + noise_sd * rng.standard_normal((draws, population))
    noisy = np.take_along_axis(true, np.argsort(-seen, axis=1)[:, : weights.size], axis=1) @ weights
    exact = -np.sort(-true, axis=1)[:, : weights.size] @ weights
    return noisy, exact
