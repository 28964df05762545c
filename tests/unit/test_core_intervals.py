from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.statistics.intervals import mean_interval, paired_difference, wilson

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


def test_wilson_known_values() -> None:
    """Newcombe 1998, table I: 81 of 263."""
    interval = wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=5e-5)
    assert interval.high == pytest.approx(0.3662, abs=5e-5)
    assert wilson(0, 20).low == 0
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=5e-5)
    assert wilson(20, 20).high == 1


@given(st.integers(1, 500), st.data())
def test_wilson_contains_its_estimate_and_mirrors(n: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, n))
    interval, mirrored = wilson(successes, n), wilson(n - successes, n)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirrored.high, abs=1e-12)
    assert wilson(successes, n, 0.5).high <= interval.high


@given(VALUES, st.integers(0, 2**63 - 1))
@settings(deadline=None, max_examples=50)
def test_bootstrap_stays_within_the_sample_and_repeats(values: list[float], seed: int) -> None:
    interval = mean_interval(values, seed, resamples=200)
    slack = 1e-9
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
    assert interval == mean_interval(values, seed, resamples=200)


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 2_000).tolist()
    interval = mean_interval(values, 1)
    half = 1.96 * np.std(values) / np.sqrt(len(values))
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)
    assert interval.low < 0.3 < interval.high


def test_large_samples_are_resampled_in_pieces() -> None:
    values = [0.0, 1.0] * 40_000
    interval = mean_interval(values, 1, resamples=60)
    assert 0.49 < interval.low < interval.estimate < interval.high < 0.51


def test_pairing_removes_what_the_problems_have_in_common() -> None:
    rng = np.random.default_rng(2)
    difficulty = rng.normal(0, 10, 200)
    a, b = (difficulty + 0.5 + rng.normal(0, 0.1, 200)).tolist(), difficulty.tolist()
    interval = paired_difference(a, b, 3)
    assert interval.estimate == pytest.approx(0.5, abs=0.05)
    assert interval.low > 0.45
    assert paired_difference(b, b, 3).high == 0


@given(VALUES, st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_differences_change_sign_with_their_order(values: list[float], seed: int) -> None:
    zeros = [0.0] * len(values)
    there, back = paired_difference(values, zeros, seed), paired_difference(zeros, values, seed)
    assert there.estimate == pytest.approx(-back.estimate)
    assert there.low == pytest.approx(-back.high)


def test_nonsense_is_refused() -> None:
    for successes, n in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="successes"):
            wilson(successes, n)
    for values in ([], [float("nan")], [float("inf")]):
        with pytest.raises(ValueError, match="finite"):
            mean_interval(values, 1)
    with pytest.raises(ValueError, match="got 2 and 1"):
        paired_difference([1, 2], [1], 1)
    with pytest.raises(ValueError, match="confidence"):
        mean_interval([1.0], 1, confidence=1.0)
