from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.baselines.adam import Adam
from services.core.baselines.minimisation import minimise
from services.core.baselines.softmax_regression import PENALTIES, folds, objective, path
from services.core.policy.selection import softmax


@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
@settings(max_examples=30, deadline=None)
def test_the_gradient_is_that_of_finite_differences(seed: int, penalty: float) -> None:
    rng = np.random.default_rng(seed)
    states, targets = rng.standard_normal((7, 4)), softmax(rng.standard_normal((7, 3)))
    loss = objective(states, targets, penalty)
    point, direction = rng.standard_normal((2, 15))
    slope = (loss(point + 1e-6 * direction)[0] - loss(point - 1e-6 * direction)[0]) / 2e-6
    assert loss(point)[1] @ direction == pytest.approx(slope, rel=1e-5, abs=1e-7)


@given(st.integers(0, 10**6), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_a_quadratic_is_minimised(seed: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((dimension, dimension))
    matrix = root @ root.T + 0.1 * np.eye(dimension)
    wanted = rng.standard_normal(dimension)

    def value(point: np.ndarray) -> tuple[float, np.ndarray]:
        off = point - wanted
        return float(off @ matrix @ off) / 2, matrix @ off

    np.testing.assert_allclose(minimise(value, np.zeros(dimension), tolerance=1e-9), wanted, atol=1e-5)


def test_a_valley_that_bends_is_followed() -> None:
    def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = point
        slope = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2), slope

    np.testing.assert_allclose(minimise(rosenbrock, np.array([-1.2, 1.0])), [1, 1], atol=1e-4)


def test_the_first_penalty_leaves_little_but_the_bias_and_each_fit_is_a_minimum() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((60, 5))
    targets = np.eye(3)[np.where(states[:, 0] > 0, 2, rng.integers(2, size=60))]
    lengths = []
    for penalty, linear in zip(PENALTIES, path(states, targets), strict=True):
        lengths.append(float(np.linalg.norm(linear.weights)))
        vector = np.concatenate([linear.weights.ravel(), linear.bias])
        assert np.abs(objective(states, targets, penalty)(vector)[1]).max() < 1e-3
    assert lengths == sorted(lengths)
    assert lengths[0] < 0.1 < 1 < lengths[-1]


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_each_problem_is_judged_once_by_a_fit_that_has_not_seen_it(problems: int, seed: int) -> None:
    judged: list[int] = []
    for training, part in folds(problems, seed):
        assert not set(training) & set(part)
        assert len(training) + len(part) == problems
        judged += part.tolist()
    assert sorted(judged) == list(range(problems))


def test_adam_takes_steps_of_the_rate_and_decays_the_point_alone() -> None:
    first = Adam.start(np.array([1.0, -2.0])).descend(np.array([1e-3, -5.0]), rate=0.1)
    np.testing.assert_allclose(first.point, [0.9, -1.9], atol=1e-5)
    decayed = Adam.start(np.array([1.0, -2.0])).descend(np.zeros(2), rate=0.1, decay=0.5)
    np.testing.assert_allclose(decayed.point, [0.95, -1.9])
    assert first.steps == 1
