from __future__ import annotations

import numpy as np
import pytest

from services.core.statistics import variance
from services.core.statistics.resampling import ratio, resampled

SHAPE = (200, 12, 16)  # generations, candidates, replicates


def simulated(between: float, problem: float, noise: float, *, crossed: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    generations, candidates, replicates = SHAPE
    of_candidates = rng.normal(0, between, (generations, candidates, 1))
    of_problems = rng.normal(0, problem, (generations, 1 if crossed else candidates, replicates))
    return list(of_candidates + of_problems + rng.normal(0, noise, SHAPE) + 0.5)


@pytest.mark.parametrize("crossed", [True, False])
def test_the_analysis_of_variance_returns_the_components_it_was_given(crossed: bool) -> None:
    rewards = simulated(0.1, 0.3, 0.4, crossed=crossed)
    squares = variance.mean_squares(rewards, crossed=crossed)
    found = variance.components(squares, SHAPE[1], SHAPE[2], crossed=crossed)
    assert found.between == pytest.approx(0.01, abs=0.002)
    assert found.problem == pytest.approx(0.09 if crossed else 0.0, abs=0.006)
    # Where each candidate has its own problems, their variance is noise.
    noise = 0.16 if crossed else 0.25
    assert found.noise == pytest.approx(noise, rel=0.02)
    assert found.reliability == pytest.approx(0.01 / (0.01 + noise / 16), abs=0.05)


def test_both_ways_to_the_reliability_agree() -> None:
    rewards = simulated(0.1, 0.3, 0.4, crossed=True)
    products = variance.half_products(rewards, seed=3, splits=10)
    whole = variance.spearman_brown(variance.split_half(products))
    assert variance.split_half(products) == pytest.approx(1 / 3, abs=0.05)  # 0.01 / (0.01 + 0.16 / 8)
    assert whole == pytest.approx(0.5, abs=0.05)


def test_pure_luck_has_no_reliability() -> None:
    rewards = simulated(0.0, 0.3, 0.4, crossed=True)
    found = variance.components(variance.mean_squares(rewards, crossed=True), SHAPE[1], SHAPE[2], crossed=True)
    assert abs(found.between) < 0.001
    assert abs(variance.split_half(variance.half_products(rewards, seed=3, splits=10))) < 0.05


def test_equal_rewards_have_no_correlation_instead_of_a_wrong_one() -> None:
    assert np.isnan(variance.split_half(variance.half_products([np.ones((4, 4))], seed=1)))


def test_generations_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        variance.mean_squares([np.ones((4, 4)), np.ones((4, 3))], crossed=True)
    with pytest.raises(ValueError, match="at least 2 x 2"):
        variance.mean_squares([np.ones((4, 1))], crossed=True)


def test_an_interval_over_clusters_is_wider_than_one_over_their_members() -> None:
    """Twenty problems with fifty equal turns each say as much as twenty turns."""
    chosen = np.array([50.0, 0.0] * 10)
    over_problems = ratio(chosen, np.full(20, 50.0), seed=1)
    over_turns = ratio(np.repeat(chosen / 50, 50), np.ones(1000), seed=1)
    assert over_problems.estimate == over_turns.estimate == 0.5
    assert over_problems.high - over_problems.low > 5 * (over_turns.high - over_turns.low)


def test_a_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(120, 40))
    found = [resampled(lambda at, own=own: float(own[at].mean()), 40, 1, 200) for own in samples]  # type: ignore[misc]
    covered = sum(each.low <= 0 <= each.high for each in found)
    assert 0.85 * 120 < covered < 120
