from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.statistics.crossed import crossed_interval
from services.core.statistics.intervals import mean_interval

FEW = settings(max_examples=30, deadline=None)


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 1000))
@FEW
def test_the_interval_stays_within_the_figures_and_repeats(trainings: int, problems: int, seed: int) -> None:
    table = np.random.default_rng(seed).random((trainings, problems))
    interval = crossed_interval(table, seed)
    assert table.min() - 1e-9 <= interval.low <= interval.high <= table.max() + 1e-9
    assert interval.estimate == pytest.approx(table.mean())
    assert interval == crossed_interval(table, seed)


def test_one_training_is_the_bootstrap_over_problems() -> None:
    values = np.random.default_rng(1).random(200)
    one, plain = crossed_interval(values[np.newaxis], 3), mean_interval(values.tolist(), 3)
    assert one.low == pytest.approx(plain.low, abs=0.006)
    assert one.high == pytest.approx(plain.high, abs=0.006)


def test_trainings_that_differ_widen_the_interval() -> None:
    values = np.random.default_rng(1).random(200)
    same = crossed_interval(np.stack([values] * 4), 3)
    apart = crossed_interval(np.stack([values + shift for shift in (-0.3, -0.1, 0.1, 0.3)]), 3)
    assert apart.high - apart.low > 3 * (same.high - same.low)
    assert apart.estimate == pytest.approx(same.estimate)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, hits = np.random.default_rng(7), 0
    for number in range(200):
        training, problem = rng.normal(0, 0.1, (12, 1)), rng.normal(0, 0.3, (1, 80))
        interval = crossed_interval(training + problem + rng.normal(0, 0.2, (12, 80)), number)
        hits += interval.low <= 0 <= interval.high
    assert hits / 200 > 0.88


def test_missing_figures_are_left_out_and_each_training_weighs_the_same() -> None:
    table = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, np.nan, np.nan, np.nan]])
    assert crossed_interval(table, 0).estimate == 0.5


@pytest.mark.parametrize("table", [np.empty((0, 3)), np.array([1.0]), np.array([[np.nan]]), np.array([[np.inf]])])
def test_what_has_no_interval_is_refused(table: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    with pytest.raises(ValueError, match="training"):
        crossed_interval(table, 0)


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence"):
        crossed_interval(np.ones((1, 2)), 0, 1.0)
