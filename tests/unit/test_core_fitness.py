from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.fitness import Incomplete, Outcome, fitness_of, ranks

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
