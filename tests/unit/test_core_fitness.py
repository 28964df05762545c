from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.campaign import Campaign
from services.core.fitness import (
    Effort,
    Incomplete,
    Outcome,
    bonus_of,
    fitness_of,
    is_shaped,
    penalty_of,
    ranks,
    shaped,
)
from tests.support.campaigns import small_campaign

REWARDS = st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=6)


def outcomes(rewards: list[list[float]]) -> list[Outcome]:
    return [Outcome(c, r, reward) for c, row in enumerate(rewards) for r, reward in enumerate(row)]


@given(REWARDS, st.randoms(use_true_random=False))
def test_fitness_is_the_mean_whatever_the_order(rewards: list[list[float]], random: object) -> None:
    ordered = fitness_of(outcomes(rewards), len(rewards), 3)
    mixed = outcomes(rewards)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    shuffled = fitness_of(mixed, len(rewards), 3)
    assert not isinstance(ordered, Incomplete)
    assert not isinstance(shuffled, Incomplete)
    assert ordered.tobytes() == shuffled.tobytes()
    np.testing.assert_allclose(ordered, np.mean(rewards, axis=1), rtol=1e-12)


@given(REWARDS, st.data())
def test_one_missing_reward_leaves_no_fitness(rewards: list[list[float]], data: st.DataObject) -> None:
    known = outcomes(rewards)
    gone = data.draw(st.sampled_from(known))
    without = [outcome for outcome in known if outcome is not gone]
    failed = [*without, Outcome(gone.candidate, gone.replicate, None)]
    wanted = Incomplete(((gone.candidate, gone.replicate),))
    assert fitness_of(without, len(rewards), 3) == wanted
    assert fitness_of(failed, len(rewards), 3) == wanted


@pytest.mark.parametrize(
    "wrong",
    [Outcome(1, 0, 0.5), Outcome(0, 2, 0.5), Outcome(-1, 0, 0.5), Outcome(0, 1, 1.5), Outcome(0, 1, float("nan"))],
)
def test_foreign_outcomes_are_refused(wrong: Outcome) -> None:
    with pytest.raises(ValueError, match="replicate"):
        fitness_of([Outcome(0, 0, 1.0), wrong], 1, 2)


def test_an_outcome_counts_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        fitness_of([Outcome(0, 0, 1.0), Outcome(0, 0, 1.0)], 1, 1)


def test_ranks() -> None:
    assert ranks([0.5, 0.9, 0.5, 0.1]) == (2, 1, 2, 4)
    assert ranks(np.array([1.0])) == (1,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_rank_is_one_more_than_the_number_of_better_ones(values: list[float]) -> None:
    assert ranks(values) == tuple(1 + sum(other > value for other in values) for value in values)


COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=7).filter(any)


def bonuses(entropy: float, turn: float, max_turns: int = 5) -> Campaign:
    campaign = small_campaign()
    search = replace(campaign.search, entropy_bonus=entropy, turn_bonus=turn)
    return replace(campaign, search=search, protocol=replace(campaign.protocol, max_turns=max_turns))


@given(COUNTS, st.floats(0, 1), st.floats(0, 1), st.integers(1, 9))
def test_the_bonus_is_the_authors_formula(counts: list[int], entropy: float, turn: float, max_turns: int) -> None:
    chosen = np.repeat(np.arange(len(counts)), counts)  # one entry per turn of all the candidate's episodes
    shares = np.bincount(chosen) / len(chosen)
    diversity = -np.sum(shares[shares > 0] * np.log(shares[shares > 0]))
    wanted = entropy * diversity - turn * ((len(chosen) - 1) / max_turns) / 4
    assert bonus_of(counts, bonuses(entropy, turn, max_turns)) == pytest.approx(wanted, abs=1e-11)


@given(COUNTS, st.randoms(use_true_random=False))
def test_which_agent_is_chosen_how_often_does_not_matter(counts: list[int], random: object) -> None:
    mixed = [0, *counts]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    authors = bonuses(0.15, 0.1)
    assert bonus_of(mixed, authors) == bonus_of(counts, authors)


@given(st.integers(1, 7), st.integers(1, 30))
def test_the_entropy_is_largest_when_all_are_chosen_alike(agents: int, each: int) -> None:
    assert bonus_of([each] * agents, bonuses(1, 0)) == pytest.approx(math.log(agents), abs=1e-11)
    assert bonus_of([each * agents], bonuses(1, 0)) == 0


def test_turns_are_counted_over_all_episodes() -> None:
    """16 episodes of 5 turns cost 0.395 with the authors' weight, 16 of one turn 0.075."""
    assert bonus_of([80], bonuses(0, 0.1)) == pytest.approx(-0.395)
    assert bonus_of([16], bonuses(0, 0.1)) == pytest.approx(-0.075)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_bonuses_of_zero_leave_the_mean_reward_to_the_bit(rewards: list[float]) -> None:
    assert not is_shaped(small_campaign())
    assert shaped(np.array(rewards), Effort(), small_campaign()).tolist() == rewards


def test_every_candidate_has_its_own_bonus() -> None:
    campaign = bonuses(0.5, 0.1)
    fitness = shaped(np.array([0.25, 1.0]), Effort({1: {0: 3}, 0: {0: 2, 1: 2}}), campaign)
    assert fitness.tolist() == [0.25 + bonus_of([2, 2], campaign), 1.0 + bonus_of([3], campaign)]
    with pytest.raises(ValueError, match="no turns"):
        shaped(np.array([0.25, 1.0]), Effort({0: {0: 2}}), campaign)


def priced(weight: float, unit: float | None = 0.002, **bonus: float) -> Campaign:
    campaign = small_campaign()
    return replace(
        campaign,
        search=replace(campaign.search, cost_weight=weight, cost_unit_usd=unit, **bonus),  # type: ignore[arg-type]
    )


@given(st.floats(0, 100), st.decimals(0, 10, places=9), st.floats(1e-6, 10))
def test_the_penalty_is_weight_times_the_mean_cost_in_units(weight: float, usd: Decimal, unit: float) -> None:
    """Three episodes, the replicates of the small campaign."""
    wanted = weight * float(usd) / 3 / unit
    assert penalty_of(usd, priced(weight, unit)) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_cost_is_taken_from_what_reward_and_bonuses_are() -> None:
    campaign = priced(0.5)
    spent = {0: Decimal("0.006"), 1: Decimal(0)}
    assert shaped(np.array([0.75, 0.25]), Effort(spent=spent), campaign).tolist() == [0.25, 0.25]
    both = priced(0.5, entropy_bonus=0.15)
    found = shaped(np.array([0.75, 0.25]), Effort({0: {0: 1, 1: 1}, 1: {0: 2}}, spent), both)
    assert found.tolist() == [0.75 + bonus_of([1, 1], both) - 0.5, 0.25]


@pytest.mark.parametrize(("campaign", "spent"), [(priced(0.5), {0: Decimal(1)}), (priced(0.5, None), {})])
def test_an_unknown_cost_is_no_cost_of_zero(campaign: Campaign, spent: dict[int, Decimal]) -> None:
    with pytest.raises(ValueError, match="not known"):
        shaped(np.array([0.75, 0.25]), Effort(spent=spent), campaign)
