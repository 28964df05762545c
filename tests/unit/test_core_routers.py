from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.baselines import fitting, lookup
from services.core.baselines.logistic import soft_targets
from services.core.baselines.standardisation import Standardisation
from services.core.errors import LayoutMismatch
from services.core.labels import Labels
from services.core.rivals import FITTED, RivalKind, RivalSpec
from tests.support.labelled import Toy, grouped

LEARNT = sorted(FITTED - {RivalKind.SMOOTHIE_INDEPENDENT})  # these tell questions apart
TOY = grouped(seed=1)
UNSEEN = grouped(seed=1, problems=900)  # the same groups: their centres are drawn first


@lru_cache
def fitted(kind: RivalKind) -> NDArray[np.float64]:
    return fitting.fit(RivalSpec(kind), TOY.labels, 1)


def choices(kind: RivalKind, parameters: NDArray[np.float64], toy: Toy) -> list[int]:
    found = fitting.router(RivalSpec(kind), parameters, toy.labels.models, toy.labels.states.shape[1])
    rng = np.random.default_rng(0)
    return [found.agent(state.astype(np.float32), rng) for state in toy.labels.states]


@pytest.mark.parametrize("kind", LEARNT)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_router_finds_each_groups_good_model(kind: RivalKind, seed: int) -> None:
    toy, unseen = grouped(seed=seed), grouped(seed=seed, problems=900)
    parameters = fitting.fit(RivalSpec(kind), toy.labels, seed)
    regret = unseen.best - unseen.value(choices(kind, parameters, unseen))
    assert regret < 0.05
    assert unseen.best - unseen.best_single > 0.4


@pytest.mark.parametrize("kind", LEARNT)
def test_where_states_tell_nothing_a_router_is_about_as_good_as_the_best_model(kind: RivalKind) -> None:
    rng = np.random.default_rng(5)
    worth = np.tile([0.2, 0.8, 0.4], (400, 1))
    labels = Labels(
        rng.standard_normal((400, 20)),
        (rng.random((400, 3, 1)) < worth[:, :, None]).astype(float),
        ["only"] * 400,
        [["a"] * 3] * 400,
    )
    toy = Toy(labels, worth)
    parameters = fitting.fit(RivalSpec(kind), labels, 1)
    assert toy.best - toy.value(choices(kind, parameters, toy)) < 0.03


@pytest.mark.parametrize("kind", sorted(FITTED))
def test_a_fit_is_repeatable_and_already_rounded_as_it_is_stored(kind: RivalKind) -> None:
    first, again = fitted(kind), fitting.fit(RivalSpec(kind), TOY.labels, 1)
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, first.astype(np.float32).astype(np.float64))
    assert choices(kind, first, TOY) == choices(kind, first.astype(np.float32), TOY)


@pytest.mark.parametrize("kind", sorted(FITTED))
def test_parameters_of_another_size_are_refused(kind: RivalKind) -> None:
    parameters = fitted(kind)
    hidden, models = TOY.labels.states.shape[1], TOY.labels.models
    for wrong in (parameters[:-1], np.append(parameters, 0.0), np.zeros(0)):
        with pytest.raises(LayoutMismatch):
            fitting.router(RivalSpec(kind), wrong, models, hidden)
    broken = parameters.copy()
    broken[0] = np.nan
    with pytest.raises(LayoutMismatch, match="finite"):
        fitting.router(RivalSpec(kind), broken, models, hidden)


@pytest.mark.parametrize("kind", sorted(FITTED - {RivalKind.LOOKUP}))
def test_parameters_of_another_pool_are_refused(kind: RivalKind) -> None:
    parameters = fitted(kind)
    with pytest.raises(LayoutMismatch):
        fitting.router(RivalSpec(kind), parameters, TOY.labels.models + 1, TOY.labels.states.shape[1])


def test_a_lookup_that_names_a_model_outside_the_pool_is_refused() -> None:
    parameters = fitted(RivalKind.LOOKUP)
    with pytest.raises(LayoutMismatch, match="0 to 1"):
        fitting.router(RivalSpec(RivalKind.LOOKUP), parameters, 2, TOY.labels.states.shape[1])


@pytest.mark.parametrize("kind", sorted(FITTED))
def test_a_state_of_another_size_is_refused(kind: RivalKind) -> None:
    found = fitting.router(RivalSpec(kind), fitted(kind), 4, 12)
    for wrong in (np.zeros(11), np.zeros((1, 12)), np.full(12, np.nan)):
        with pytest.raises(ValueError, match="wanted"):
            found.agent(wrong, np.random.default_rng(0))


@pytest.mark.parametrize("kind", sorted(set(RivalKind) - FITTED))
def test_what_is_not_fitted_has_no_parameters(kind: RivalKind) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        fitting.fit(RivalSpec(kind, "a model"), TOY.labels, 1)
    with pytest.raises(ValueError, match="not fitted"):
        fitting.router(RivalSpec(kind, "a model"), np.zeros(4), 4, 12)


@pytest.mark.parametrize("kind", sorted(FITTED))
def test_labels_that_are_too_few_or_not_numbers_are_refused(kind: RivalKind) -> None:
    labels = TOY.labels
    few = Labels(labels.states[:3], labels.rewards[:3], labels.families[:3], labels.answers[:3])
    with pytest.raises(ValueError, match="at least 4"):
        fitting.fit(RivalSpec(kind), few, 1)
    unknown = labels.rewards.copy()
    unknown[7, 1, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        fitting.fit(RivalSpec(kind), replace(labels, rewards=unknown), 1)


@pytest.mark.parametrize("kind", sorted(FITTED))
def test_four_labelled_problems_with_equal_states_are_enough_for_a_fit(kind: RivalKind) -> None:
    rewards = np.zeros((4, 3, 1))
    rewards[:, 2] = 1.0
    labels = Labels(np.ones((4, 5)), rewards, ["a", "b", "a", "b"], [["x", "y", "x"]] * 4)
    parameters = fitting.fit(RivalSpec(kind), labels, 1)
    chosen = fitting.router(RivalSpec(kind), parameters, 3, 5).agent(np.ones(5), np.random.default_rng(0))
    assert chosen == {RivalKind.SMOOTHIE_INDEPENDENT: 0}.get(kind, 2)


@pytest.mark.parametrize("kind", [RivalKind.LOOKUP, RivalKind.LOGISTIC])
@given(order=st.permutations(range(4)))
@settings(max_examples=5, deadline=None)
def test_models_in_another_order_are_chosen_in_that_order(kind: RivalKind, order: list[int]) -> None:
    labels = TOY.labels
    moved = replace(labels, rewards=labels.rewards[:, order])
    before = choices(kind, fitted(kind), TOY)
    after = choices(kind, fitting.fit(RivalSpec(kind), moved, 1), TOY)
    assert np.mean([order[model] == other for model, other in zip(after, before, strict=True)]) > 0.99


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_a_family_gets_the_model_that_earned_most_in_it_and_overall_among_equals(
    seed: int, models: int, families: int
) -> None:
    rng = np.random.default_rng(seed)
    means = rng.integers(0, 3, size=(12, models)) / 2
    places = np.unique(rng.integers(families, size=12), return_inverse=True)[1].astype(np.intp)
    overall = means.sum(axis=0)
    for family, best in enumerate(lookup.best_by_family(means, places)):
        earned = means[places == family].sum(axis=0)
        equals = np.flatnonzero(earned == earned.max())
        assert best in equals
        assert overall[best] == overall[equals].max()
        assert best == equals[overall[equals].argmax()]


def test_the_lookup_tells_families_apart_by_state() -> None:
    found = lookup.LookupRouter(lookup.fit(TOY.labels, 1), 4, 12)
    names = sorted(set(UNSEEN.labels.families))
    told = [
        names[found.family(state)] == family
        for state, family in zip(UNSEEN.labels.states, UNSEEN.labels.families, strict=True)
    ]
    assert np.mean(told) > 0.98


@given(st.floats(0.05, 5.0))
def test_soft_targets_are_the_softmax_of_rewards(temperature: float) -> None:
    means = np.array([[0.0, 1.0, 0.5], [0.2, 0.2, 0.2]])
    targets = soft_targets(means, temperature)
    np.testing.assert_allclose(targets.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(targets[0] / targets[0, 0]), means[0] / temperature, atol=1e-9)
    np.testing.assert_allclose(targets[1], 1 / 3)


def test_a_coordinate_that_hardly_varies_is_not_magnified() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((50, 3))
    states[:, 2] = 1e4 + 1e-9 * states[:, 2]
    standardised = Standardisation.of(states)(states.astype(np.float32))
    assert np.abs(standardised[:, 2]).max() < 1e-2
    np.testing.assert_allclose(standardised[:, :2].std(axis=0), 1.0, rtol=1e-5)
