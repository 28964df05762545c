from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.statistics.cross_fitting import (
    best_of_family,
    best_single,
    cross_fitted,
    halves,
    in_sample,
    resampled_means,
    ridge_router,
    routed_by_answers,
)
from services.core.statistics.headroom import Headroom, Way, headroom
from services.core.statistics.intervals import Interval
from services.core.statistics.outcome_table import Answered, OutcomeTable, tabulate
from services.core.statistics.verdict import Finding, Gain, judged

FAMILIES = ("sums", "words")


def drawn(
    skills: NDArray[np.float64], repeats: int, seed: int, states: NDArray[np.float64] | None = None
) -> OutcomeTable:
    """Return rewards of 0 and 1 with these probabilities, shape (questions, models); families alternate."""
    rng = np.random.default_rng(seed)
    rewards = (rng.random((*skills.shape, repeats)) < skills[:, :, None]).astype(np.float64)
    families = tuple(FAMILIES[question % 2] for question in range(len(skills)))
    return OutcomeTable(tuple(f"m{model}" for model in range(skills.shape[1])), families, rewards, states)


def gain(found: Headroom, way: Way) -> Interval:
    line = found.line(way)
    assert line is not None
    assert line.gain is not None
    return line.gain


# Cross-fitting


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.integers(0, 99))
def test_halves_share_every_family_and_are_followed_by_their_complements(families: list[int], seed: int) -> None:
    groups = np.unique(families, return_inverse=True)[1]
    looks = halves(groups, seed, splits=3)
    assert (looks[::2] == ~looks[1::2]).all()
    for group in np.unique(groups):
        sizes = looks[:, groups == group].sum(axis=1)
        assert set(sizes.tolist()) <= {(groups == group).sum() // 2, ((groups == group).sum() + 1) // 2}


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_no_question_is_scored_by_a_choice_that_looked_at_it(seed: int) -> None:
    """Whoever remembers what he saw gets it all in sample; what was not seen is worth what a blind guess is."""
    rng = np.random.default_rng(seed)
    means = np.eye(2)[rng.integers(0, 2, 60)]

    def remembers(look: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.where(look, means.argmax(axis=1), 0).astype(np.intp)

    assert in_sample(remembers, means).mean() == 1
    np.testing.assert_array_equal(cross_fitted(remembers, means, halves(np.zeros(60, np.intp), seed, 4)), means[:, 0])


def test_the_best_of_a_family_that_was_not_looked_at_is_the_best_of_all() -> None:
    means, groups = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1])
    weights = np.full(3, 1 / 3)
    assert best_of_family(means, weights, groups)(np.array([True, True, False])).tolist() == [0, 0, 0]
    assert best_of_family(means, weights, groups)(np.array([True, True, True])).tolist() == [0, 0, 1]
    assert best_single(means, weights)(np.array([False, False, True])).tolist() == [1, 1, 1]


def test_the_router_finds_what_the_states_tell_and_nothing_where_they_tell_nothing() -> None:
    rng = np.random.default_rng(4)
    told = rng.integers(0, 2, 400)
    states = np.column_stack([told, rng.standard_normal((400, 30))])
    means = np.where(told[:, None] == np.arange(2), 1.0, 0.0)
    looks = halves(np.zeros(400, np.intp), 0, 3)
    assert cross_fitted(ridge_router(means, states), means, looks).mean() > 0.99
    blind = cross_fitted(ridge_router(means, states[:, 1:]), means, looks).mean()
    assert abs(blind - 0.5) < 0.1
    constant = ridge_router(means, np.ones((400, 3)))(np.ones(400, np.bool_))
    assert len(set(constant.tolist())) == 1


def test_the_answer_that_is_scored_does_not_choose() -> None:
    """Each of two models is right once; whichever answer chooses, the other one is wrong."""
    rewards = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    assert routed_by_answers(rewards, np.zeros(1, np.intp)).tolist() == [0.0]
    with pytest.raises(ValueError, match="two answers"):
        routed_by_answers(rewards[:, :, :1], np.zeros(1, np.intp))


def test_resampling_keeps_figures_paired_and_strata_whole() -> None:
    values = np.array([0.0, 1.0, 0.25, 0.75])
    weights = np.full(4, 0.25)
    draws = resampled_means([values, values + 1], weights, None, 3)
    np.testing.assert_allclose(draws[:, 1] - draws[:, 0], 1)
    assert draws[:, 0].mean() == pytest.approx(0.5, abs=0.02)
    alone = resampled_means([values], weights, np.arange(4), 3)
    np.testing.assert_allclose(alone, 0.5)


# The analysis


def test_pure_luck_is_no_headroom() -> None:
    """Models alike on every question: the union promises much, the cross-fitted ways nothing."""
    found = headroom(drawn(np.full((1500, 5), 0.5), repeats=4, seed=1), seed=2)
    oracle, union = gain(found, Way.ANSWERS), gain(found, Way.UNION)
    assert oracle.low <= 0 <= oracle.high
    assert oracle.high < 0.06
    assert union.low > 0.4


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_cross_fitted_ways_have_no_bias_upwards_under_luck(seed: int) -> None:
    table = drawn(np.tile([0.6, 0.5, 0.4], (300, 1)), repeats=3, seed=seed)
    found = headroom(table, seed=seed)
    noise = 4 * 0.5 / np.sqrt(300 * 3)
    assert gain(found, Way.ANSWERS).estimate < noise
    assert gain(found, Way.FAMILY).estimate < noise


def known_pool(repeats: int, seed: int = 0) -> tuple[OutcomeTable, float]:
    """Return a pool in which one model is sure of a question, which state tells, and the others guess; and its gain."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 3, 1200)
    skills = np.where(owner[:, None] == np.arange(3), 0.95, 0.35)
    states = np.eye(3)[owner] + rng.normal(0, 0.1, (1200, 3))
    return drawn(skills, repeats, seed, states), 0.95 - (0.95 + 2 * 0.35) / 3


def test_a_known_headroom_is_found() -> None:
    table, true = known_pool(repeats=8)
    found = headroom(table, seed=0)
    oracle, router, family = (gain(found, way) for way in (Way.ANSWERS, Way.ROUTER, Way.FAMILY))
    assert router.low <= true <= router.high + 0.01
    assert true - 0.03 < oracle.estimate < true + 0.02
    assert family.low <= 0.01
    assert family.high < 0.03, "the families tell nothing"
    assert found.verdict.finding is Finding.WORTH_TRAINING
    assert found.marginal in (Way.ROUTER, Way.ANSWERS)
    assert all(each.loss is not None and each.loss.low > 0.1 for each in found.models)


def test_one_answer_gives_no_oracle_and_no_verdict_that_it_does_not_bear() -> None:
    table = drawn(np.full((400, 3), 0.5), repeats=1, seed=0)
    found = headroom(table, seed=0)
    assert found.line(Way.ANSWERS) is None
    assert found.verdict.finding is Finding.INCONCLUSIVE, "the union leaves open what the families do not show"
    alike = OutcomeTable(table.models, table.families, np.repeat(table.rewards[:, :1], 3, axis=1))
    bound = headroom(alike, seed=0)
    assert bound.verdict.finding is Finding.POOL_BOUND
    assert gain(bound, Way.UNION).high == 0


def test_families_may_count_alike() -> None:
    rewards = np.array([[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 2)[:, :, None]
    table = OutcomeTable(("a", "b"), ("x",) * 6 + ("y",) * 2, rewards)
    alike, plain = headroom(table, seed=0, by_family=True), headroom(table, seed=0)
    assert [round(each.mean.estimate, 12) for each in alike.models] == [0.5, 0.5]
    assert [each.mean.estimate for each in plain.models] == [0.75, 0.25]
    assert [each.alone for each in plain.models] == [6, 2]
    assert plain.disagreement == ((0.0, 1.0), (1.0, 0.0))
    assert [each.union_loss for each in plain.models] == [0.75, 0.25]
    with pytest.raises(ValueError, match="at least two"):
        headroom(table.only([0]), seed=0)


# The verdict


def span(low: float, estimate: float, high: float) -> Interval:
    return Interval(estimate, low, high)


def test_verdicts() -> None:
    union = Gain("union", span(0.1, 0.2, 0.3))
    low, high = Gain("low", span(-0.01, 0.0, 0.015)), Gain("high", span(0.03, 0.05, 0.07))
    unclear = Gain("unclear", span(0.0, 0.03, 0.06))
    assert judged([low], union, 0.02, 100, repeated=True).finding is Finding.POOL_BOUND
    assert judged([low, high], union, 0.02, 100, repeated=True).finding is Finding.WORTH_TRAINING
    assert judged([low], union, 0.02, 100, repeated=False).finding is Finding.INCONCLUSIVE
    assert judged([], union, 0.02, 100, repeated=False).finding is Finding.INCONCLUSIVE
    found = judged([unclear], union, 0.02, 100, repeated=True)
    assert (found.finding, found.needed) == (Finding.INCONCLUSIVE, 900), "half of 0.06 has to shrink to 0.01"
    assert "900 questions are needed for +-0.010" in found.reason


# Tables


def test_a_question_counts_when_every_model_answered_it() -> None:
    rows = [("q1", "a", 1.0), ("q1", "b", 0.0), ("q1", "a", 0.5), ("q2", "a", 1.0), ("q3", "b", 1.0), ("q3", "a", 0.0)]
    found = tabulate([Answered(question, "f", model, reward) for question, model, reward in rows], ("a", "b"))
    assert found.keys == ("q1", "q3")
    assert found.table.rewards.tolist() == [[[1.0], [0.0]], [[0.0], [1.0]]]
    assert (found.incomplete, found.surplus) == (1, 1)
    with pytest.raises(ValueError, match="no question"):
        tabulate([Answered("q", "f", "a", 1.0)], ("a", "b"))
    with pytest.raises(ValueError, match="two families"):
        tabulate([Answered("q", "f", "a", 1.0), Answered("q", "g", "b", 1.0)], ("a", "b"))


@pytest.mark.parametrize(
    ("models", "rewards", "states"),
    [
        (("a", "a"), np.zeros((1, 2, 1)), None),
        (("a", "b"), np.full((1, 2, 1), 1.5), None),
        (("a", "b"), np.full((1, 2, 1), np.nan), None),
        (("a", "b"), np.zeros((2, 2, 1)), None),
        (("a", "b"), np.zeros((1, 2, 1)), np.zeros((2, 3))),
    ],
)
def test_tables_without_sense_are_refused(
    models: tuple[str, ...], rewards: NDArray[np.float64], states: NDArray[np.float64] | None
) -> None:
    with pytest.raises(ValueError, match="got"):
        OutcomeTable(models, ("f",), rewards, states)
