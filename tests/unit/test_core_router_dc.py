from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.baselines import router_dc
from services.core.baselines.clusters import clusters
from services.core.baselines.contrast import EMBEDDING, Batch, Weights, loss, sample_llm, sample_sample
from services.core.baselines.standardisation import principal_axes
from tests.support.labelled import grouped

SEEDS = st.integers(0, 10**6)


def batch_of(rng: np.random.Generator, size: int = 5, models: int = 4, hidden: int = 3, negatives: int = 2) -> Batch:
    scores = rng.integers(0, 5, size=(size, models)) / 4
    order = router_dc.ranked(scores, rng)
    return Batch(
        states=rng.standard_normal((size, hidden)),
        scores=scores,
        best=order[:, :3],
        worst=order[:, -3:],
        companions=rng.standard_normal((size, 1 + negatives, hidden)),
        paired=rng.random(size) < 0.7,
    )


def weights_of(vector: np.ndarray) -> Weights:
    return Weights.read(vector, 4, 3)


@given(SEEDS, st.floats(0.0, 2.0), st.floats(0.2, 2.0))
@settings(max_examples=40, deadline=None)
def test_the_gradient_is_that_of_finite_differences(seed: int, sample_weight: float, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    batch = batch_of(rng)
    point, direction = rng.standard_normal((2, EMBEDDING * (3 + 1 + 4)))

    def at(vector: np.ndarray) -> tuple[float, Weights]:
        return loss(weights_of(vector), batch, sample_weight, temperature)

    values = [at(point + step * direction)[0] for step in (1e-6, -1e-6)]
    found = at(point)[1].vector()
    assert found @ direction == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-7)


def one(scores: list[float], best: list[int], worst: list[int]) -> Batch:
    empty = np.zeros((1, 0, 3))
    return Batch(np.zeros((1, 3)), np.array([scores]), np.array([best]), np.array([worst]), empty, np.array([False]))


def test_the_sample_llm_loss_is_the_sum_over_good_models_of_their_share_among_bad_ones() -> None:
    similarities = np.array([[0.9, 0.1, -0.5, 0.3]])
    found, _ = sample_llm(similarities, one([1.0, 1.0, 0.0, 0.5], best=[0, 1], worst=[2, 3]))
    bad = np.exp(-0.5) + np.exp(0.3)
    wanted = -np.log(np.exp(0.9) / (np.exp(0.9) + bad)) - np.log(np.exp(0.1) / (np.exp(0.1) + bad))
    assert found == pytest.approx(wanted)


def test_a_good_model_is_no_negative_and_a_model_that_scored_nothing_no_positive() -> None:
    similarities = np.array([[0.9, 0.1, -0.5, 0.3]])
    everyone_good, slopes = sample_llm(similarities, one([1.0, 0.9, 0.6, 0.8], best=[0, 1], worst=[2, 3]))
    assert everyone_good == 0.0
    np.testing.assert_allclose(slopes, 0.0)
    nobody_good, slopes = sample_llm(similarities, one([0.0] * 4, best=[0, 1], worst=[2, 3]))
    assert nobody_good == 0.0
    np.testing.assert_allclose(slopes, 0.0)


def test_the_sample_sample_loss_leaves_out_questions_without_companions() -> None:
    cosines = np.array([[0.8, -0.2, 0.1], [0.5, 0.5, 0.5]])
    both, _ = sample_sample(cosines, np.array([True, True]))
    first = -np.log(np.exp(0.8) / np.exp(cosines[0]).sum())
    assert both == pytest.approx((first + np.log(3)) / 2)
    assert sample_sample(cosines, np.array([True, False]))[0] == pytest.approx(first / 2)


def test_principal_axes_are_orthogonal_and_of_mean_variance_one() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((50, 8)) * [9, 5, 3, 1, 1, 1, 1, 1]
    states -= states.mean(axis=0)
    axes = principal_axes(states, 3)
    seen = states @ axes.T
    np.testing.assert_allclose((seen**2).mean(), 1.0)
    products = axes @ axes.T
    np.testing.assert_allclose(products, products[0, 0] * np.eye(3), atol=1e-9)
    assert principal_axes(np.outer(states[:, 0], np.ones(8)), 3).shape == (1, 8)
    assert principal_axes(np.zeros((4, 8)), 3).shape == (1, 8)


def test_equal_models_are_ranked_in_random_order() -> None:
    rng = np.random.default_rng(0)
    order = router_dc.ranked(np.tile([0.5, 1.0, 0.5, 1.0], (4000, 1)), rng)
    assert set(order[:, 0]) | set(order[:, 1]) == {1, 3}
    assert np.mean(order[:, 0] == 1) == pytest.approx(0.5, abs=0.03)
    assert np.mean(order[:, 3] == 0) == pytest.approx(0.5, abs=0.03)


@given(SEEDS, st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_companions_are_of_the_same_cluster_and_of_others(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    states = rng.integers(3, size=(20, 4)).astype(float)
    training = router_dc._Training(states, np.zeros((20, 3)), router_dc.Settings(clusters=count), rng)
    rows = np.arange(20)
    companions, paired = training._companions(rows)
    groups = training._cluster
    for row in rows:
        size = int((groups == groups[row]).sum())
        assert paired[row] == (1 < size < 20)
        if paired[row]:
            assert companions[row, 0] != row
            assert groups[companions[row, 0]] == groups[row]
            assert (groups[companions[row, 1:]] != groups[row]).all()


def test_clear_groups_are_the_clusters() -> None:
    rng = np.random.default_rng(3)
    groups = rng.integers(4, size=200)
    states = 20 * rng.standard_normal((4, 30))[groups] + rng.standard_normal((200, 30))
    found = clusters(states, 4, rng)
    assert len({*zip(groups.tolist(), found.tolist(), strict=True)}) == 4


def test_fewer_different_states_than_clusters_give_fewer_clusters() -> None:
    states = np.repeat(np.eye(2), 5, axis=0)
    assert sorted(set(clusters(states, 6, np.random.default_rng(0)).tolist())) == [0, 1]
    assert set(clusters(np.ones((7, 3)), 4, np.random.default_rng(0)).tolist()) == {0}


def test_the_sample_sample_loss_draws_a_cluster_together() -> None:
    toy = grouped(problems=200, seed=4)
    spreads = []
    for weight in (0.0, 3.0):
        settings_of = replace(router_dc.Settings(), steps=300, sample_weight=weight)
        vector = router_dc.fit(toy.labels, 1, settings_of)[24:]
        weights = Weights.read(vector, 4, 12)
        states = (toy.labels.states - toy.labels.states.mean(axis=0)) / toy.labels.states.std(axis=0)
        embedded = states @ weights.projection.T + weights.bias
        unit = embedded / np.linalg.norm(embedded, axis=1, keepdims=True)
        groups = np.array(toy.labels.families)
        spreads.append(np.mean([unit[groups == name].std(axis=0).mean() for name in set(toy.labels.families)]))
    assert spreads[1] < 0.9 * spreads[0]
