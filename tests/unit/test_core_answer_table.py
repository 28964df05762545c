from __future__ import annotations

import numpy as np
import pytest

from services.core.statistics import head_fit
from services.core.statistics.answer_table import AnswerTable
from services.core.statistics.separability import (
    coordinate_diagonal,
    coupling,
    full_spectral,
    random_directions,
    reduced_by_question,
)

RNG = np.random.default_rng(7)
STATES = RNG.normal(size=(30, 5))
TABLE = AnswerTable(STATES, RNG.uniform(size=(30, 3)))
WEIGHTS = RNG.normal(size=(3, 5))


def value(weights: np.ndarray) -> float:
    return float(TABLE.values(weights).mean())


def test_the_gradient_is_that_of_finite_differences() -> None:
    direction = RNG.normal(size=(3, 5))
    slope = (value(WEIGHTS + 1e-5 * direction) - value(WEIGHTS - 1e-5 * direction)) / 2e-5
    assert (TABLE.gradient(WEIGHTS) * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_the_hessian_is_that_of_finite_differences() -> None:
    direction = RNG.normal(size=(3, 5))
    moved = (TABLE.gradient(WEIGHTS + 1e-5 * direction) - TABLE.gradient(WEIGHTS - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(TABLE.hessian_product(WEIGHTS, direction), moved, rtol=1e-5, atol=1e-9)


def test_the_mean_of_drawn_answers_is_the_expected_one() -> None:
    drawn = np.mean([TABLE.sampled(WEIGHTS, RNG) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(drawn, TABLE.values(WEIGHTS), atol=0.04)


def test_a_head_that_prefers_one_agent_gets_its_rewards() -> None:
    huge = np.outer([0.0, 1.0, 0.0], np.ones(5)) * 1e4
    table = AnswerTable(np.ones((30, 5)), TABLE.rewards)
    np.testing.assert_allclose(table.values(huge), TABLE.rewards[:, 1])
    np.testing.assert_array_equal(table.choices(huge), TABLE.rewards[:, 1])


def test_a_block_diagonal_quadratic_is_separable() -> None:
    found = coupling(np.diag([1.0, 5.0, 0.1]))
    assert (found.spectral, found.pairwise, found.row, found.negative) == (0.0, 0.0, 0.0, 0.0)


def test_coupling_of_a_known_matrix() -> None:
    found = coupling(np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]))
    assert found.pairwise == pytest.approx(0.5)
    assert found.spectral == pytest.approx(0.5)
    assert found.row == pytest.approx(1.0)


def test_a_negative_diagonal_has_no_coupling() -> None:
    found = coupling(np.diag([1.0, -1.0]))
    assert (found.spectral, found.pairwise, found.row, found.negative) == (None, None, None, 0.5)


def test_the_reduced_matrix_is_that_of_hessian_products() -> None:
    directions = random_directions((3, 5), 1, 0)
    reduced = reduced_by_question(TABLE, WEIGHTS, directions).mean(axis=0)
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    blocks = [np.outer(np.eye(3)[row], units[row]) for row in range(3)]
    wanted = [[-(one * TABLE.hessian_product(WEIGHTS, other)).sum() for other in blocks] for one in blocks]
    np.testing.assert_allclose(reduced, wanted, atol=1e-12)


def test_a_common_direction_couples_the_rows_of_a_softmax_completely() -> None:
    """One vector added to all rows changes nothing, so the rows of C add up to 0."""
    reduced = reduced_by_question(TABLE, WEIGHTS, np.tile(RNG.normal(size=5), (3, 1))).mean(axis=0)
    np.testing.assert_allclose(reduced.sum(axis=1), 0, atol=1e-12)


def test_the_full_measure_is_not_below_the_reduced_one() -> None:
    best = AnswerTable(STATES, np.repeat([[1.0, 0.0]], 30, axis=0))
    # Rows that agree with the rewards: a maximum is approached and -J is convex in every coordinate.
    sure = AnswerTable(np.abs(STATES), best.rewards)
    weights = np.array([[2.0] * 5, [-2.0] * 5])
    assert (coordinate_diagonal(sure, weights) > 0).all()
    full = full_spectral(sure, weights, seed=1)
    reduced = coupling(reduced_by_question(sure, weights, sure.gradient(weights)).mean(axis=0))
    assert full is not None
    assert reduced.spectral is not None
    assert full >= reduced.spectral - 1e-9


def test_far_from_a_maximum_the_full_measure_is_not_defined() -> None:
    assert full_spectral(TABLE, np.zeros((3, 5)), seed=1) is None


def test_the_block_mask_is_the_papers_partition() -> None:
    mask = head_fit.block_mask(10, 1024)
    assert mask.sum(axis=1).tolist() == [103] * 4 + [102] * 6
    assert (mask.sum(axis=0) == 1).all()
    assert mask[0, :103].all()


def test_a_fitted_head_learns_what_the_states_tell() -> None:
    labels = RNG.integers(0, 3, 200)
    states = np.eye(6)[labels] + RNG.normal(0, 0.1, (200, 6))
    table = AnswerTable(states, np.eye(3)[labels])
    linear = head_fit.fit(table, table, np.ones((3, 6)), iterations=200, rate=0.1)
    blocks = head_fit.fit(table, table, head_fit.block_mask(3, 6), iterations=200, rate=0.1)
    assert table.values(linear.weights).mean() > 0.95
    # Two of the blocks see nothing of their own class: the indicators lie in the first three coordinates.
    assert table.values(blocks.weights).mean() < table.values(linear.weights).mean() - 0.05
    assert (blocks.weights[head_fit.block_mask(3, 6) == 0] == 0).all()
