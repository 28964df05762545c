from __future__ import annotations

import numpy as np
import pytest

from services.core.statistics import steps

N = 300


def gaussians(generations: int, candidates: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).standard_normal((generations, candidates, N)).astype(np.float32))


def test_halves_that_agree_take_the_same_step() -> None:
    (samples,) = gaussians(1, 16)
    rewards = np.repeat(np.arange(16.0)[:, None], 8, axis=1)
    assert steps.split_half_cosine(samples, rewards, seed=1) == pytest.approx(1.0)


def test_halves_of_pure_luck_take_unrelated_steps() -> None:
    """With plain weights, which add up to 1, the cosine would be mu_eff / lambda = 0.29 here."""
    rng = np.random.default_rng(2)
    found = [steps.split_half_cosine(z, rng.normal(size=(32, 16)), seed=1) for z in gaussians(40, 32)]
    assert abs(np.mean(found)) < 0.04


def test_ties_do_not_favour_a_place() -> None:
    rng = np.random.default_rng(3)
    weights = np.mean([steps.ranked_weights(np.ones(8), rng) for _ in range(3000)], axis=0)
    assert np.abs(weights).max() < 0.02
    assert weights.sum() == pytest.approx(0, abs=1e-12)


def test_the_slope_along_a_found_direction_is_positive_and_below_the_true_one() -> None:
    rng = np.random.default_rng(4)
    samples = gaussians(40, 32)
    true = np.zeros(N)
    true[0] = 1.0
    fitness = [0.1 * (z @ true) + rng.normal(0, 0.02, 32) for z in samples]
    units = steps.directions(samples, fitness, seed=1)
    # Progress of twenty exact steps against the length of their diffusion.
    cosines = units @ true
    assert cosines == pytest.approx(1.26 * 20 / np.hypot(1.26 * 20, np.sqrt(20 * N / 9.18)), abs=0.1)
    along = [z @ units[(number + 1) % 2] for number, z in enumerate(samples)]
    lengths = [(z.astype(np.float64) ** 2).sum(axis=1) for z in samples]
    found = steps.regression(along, lengths, fitness)
    assert found.slope == pytest.approx(0.1 * cosines.mean(), abs=0.01)
    assert found.explained == pytest.approx(cosines.mean() ** 2, abs=0.1)
    assert found.curvature < 0.01
    assert found.n == 40 * 32


def test_curvature_along_the_length_is_seen() -> None:
    rng = np.random.default_rng(5)
    samples = gaussians(20, 32)
    lengths = [(z.astype(np.float64) ** 2).sum(axis=1) for z in samples]
    along = [rng.standard_normal(32) for _ in samples]
    found = steps.regression(
        along, lengths, [0.1 * x - 0.01 * square for x, square in zip(along, lengths, strict=True)]
    )
    assert found.explained + found.curvature == pytest.approx(1.0)
    assert found.curvature > 0.5


def test_the_pair_that_measures_the_step_size_is_left_out() -> None:
    (samples,) = gaussians(1, 8)
    assert steps.drawn(samples).tolist() == list(range(8))
    samples[1] = -samples[0]
    assert steps.drawn(samples).tolist() == list(range(2, 8))


def test_one_generation_gives_no_direction() -> None:
    with pytest.raises(ValueError, match="two generations"):
        steps.directions(gaussians(1, 8), [np.arange(8.0)], seed=1)
