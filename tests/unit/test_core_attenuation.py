"""Against the figures of the paper's appendix, recomputed independently (mu_eff, alpha, kappa-bar, floor, bounds)."""

from __future__ import annotations

import numpy as np
import pytest

from services.core.statistics import attenuation, theory


@pytest.mark.parametrize(("population", "parents"), [(32, 9.18), (33, 9.44), (34, 9.71)])
def test_effective_parents(population: int, parents: float) -> None:
    assert attenuation.effective_parents(population) == pytest.approx(parents, abs=0.005)


def test_progress_of_an_exact_ranking() -> None:
    alpha, kappa_bar = attenuation.quality_gain(32, seed=1)
    assert alpha == pytest.approx(1.261, abs=0.01)
    assert kappa_bar == pytest.approx(14.6, abs=0.25)


def test_noise_takes_everything_but_the_floor() -> None:
    exact = attenuation.of_recombination(32, 1.0, 0.0, seed=1)
    noisy = attenuation.of_recombination(32, 1.0, 1.0, seed=1)
    blind = attenuation.of_recombination(32, 0.0, 1.0, seed=1)
    assert (exact.squared, exact.signed) == (1.0, 1.0)
    assert blind.squared == pytest.approx(0.067, abs=0.004)
    assert blind.floor == pytest.approx(blind.squared)
    assert abs(blind.signed) < 0.01
    # A rank weighs as much as its correlation with the truth: 1 / sqrt(1 + 1).
    assert noisy.signed == pytest.approx(np.sqrt(0.5), abs=0.01)


def test_random_search_picks_by_luck_as_well() -> None:
    assert attenuation.of_random_search(500, 1.0, 0.0, seed=1, draws=500) == 1.0
    assert attenuation.of_random_search(500, 1.0, 1.0, seed=1) == pytest.approx(0.5, abs=0.07)
    assert attenuation.of_random_search(500, 0.0, 1.0, seed=1) < 0.1


def test_the_predictions_for_the_papers_run() -> None:
    trials = theory.random_trials(16, 32, 60, 32)
    assert trials == 960
    assert theory.gain_ratio(14.6, 60, trials, 1.0) == pytest.approx(64, abs=0.5)
    assert theory.gain_ratio(14.6, 60, trials, 0.5) == pytest.approx(16, abs=0.2)
    assert theory.contraction(14.6, 10_000, 60) == pytest.approx(0.084, abs=0.001)
    assert theory.contraction(14.6, 19_456, 60) == pytest.approx(0.044, abs=0.001)
    assert theory.condition(np.array([0.5, 1.0, 2.0])) == 16.0
