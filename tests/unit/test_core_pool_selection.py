from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.core.statistics import relative_error
from services.core.statistics.headroom import Way, headroom
from services.core.statistics.outcome_table import OutcomeTable
from services.core.statistics.pool_selection import select
from services.core.statistics.relative_error import Aim, Choice, choose, frontier, pool_of, reduction
from tests.support import replay_data

TOY = np.array([[0.9, 0.5, 0.8, 0.2], [0.3, 0.7, 0.8, 0.2]])
NO_DISAGREEMENT = np.zeros((4, 4))


def test_the_reduction_of_a_toy_matrix() -> None:
    """Z = (0.9 + 0.7) / 2 = 0.8, S* = 0.6: half of the error goes."""
    pool = pool_of(TOY, (0, 1))
    assert (pool.best, pool.single) == pytest.approx((0.8, 0.6))
    assert pool.reduction == pytest.approx(0.5)
    assert pool_of(TOY, (0, 1, 2)).reduction == pytest.approx((0.85 - 0.8) / 0.2)
    assert reduction(1.0, 1.0) == 0


def test_the_frontier_is_near_the_best_somewhere() -> None:
    assert frontier(TOY, 0.05) == (0, 2)
    assert frontier(TOY, 0.2) == (0, 1, 2)
    assert frontier(TOY, 0.0) == (0, 2)


def test_the_two_aims_differ_where_a_model_is_best_at_everything() -> None:
    """The reduction is measured against the pool's own best member, so that two specialists beat the better one."""
    assert choose(Choice(TOY, NO_DISAGREEMENT), range(4), [2]).members == (0, 1)
    assert choose(Choice(TOY, NO_DISAGREEMENT, Aim.BEST), range(4), [2]).members == (0, 2)


def test_ties_go_to_the_smaller_then_to_the_more_diverse_pool() -> None:
    accuracies = np.array([[0.9, 0.1, 0.1, 0.1], [0.1, 0.9, 0.9, 0.1]])
    disagreement = np.zeros((4, 4))
    disagreement[0, 2] = disagreement[2, 0] = 0.5
    assert choose(Choice(accuracies, disagreement), range(4), [2, 3]).members == (0, 2)
    with pytest.raises(ValueError, match="at least 2"):
        choose(Choice(accuracies, disagreement), range(4), [5])
    with pytest.raises(ValueError, match="at least 2"):
        choose(Choice(accuracies, disagreement), range(4), [1])


MATRICES = st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed).random((3, 7)).round(2))


@given(MATRICES, st.integers(2, 6), st.sampled_from(Aim))
def test_no_pool_is_better_than_the_chosen_one(accuracies: NDArray[np.float64], size: int, aim: Aim) -> None:
    found = choose(Choice(accuracies, np.zeros((7, 7)), aim), range(7), [size])
    others = [pool_of(accuracies, members) for members in combinations(range(7), size)]
    assert found.value(aim) == max(pool.value(aim) for pool in others)


@settings(max_examples=40)
@given(MATRICES, st.integers(3, 6), st.sampled_from(Aim))
def test_growing_and_exchanging_ends_where_no_exchange_helps(
    accuracies: NDArray[np.float64], size: int, aim: Aim
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative_error, "MOST_POOLS", 0)
        found = choose(Choice(accuracies, np.zeros((7, 7)), aim), range(7), [size])
    assert len(found.members) == size
    for gone in found.members:
        for new in set(range(7)) - set(found.members):
            swapped = pool_of(accuracies, [new, *(each for each in found.members if each != gone)])
            assert swapped.value(aim) <= found.value(aim)


def specialists(seed: int) -> OutcomeTable:
    """Three families, a specialist for each, two generalists that are never the best."""
    rng = np.random.default_rng(seed)
    families = tuple(("x", "y", "z")[question % 3] for question in range(900))
    skills = np.array([[0.9, 0.3, 0.3, 0.55, 0.5], [0.3, 0.9, 0.3, 0.55, 0.5], [0.3, 0.3, 0.9, 0.55, 0.5]])
    rewards = rng.random((900, 5)) < skills[np.arange(900) % 3]
    return OutcomeTable(tuple("abcde"), families, rewards[:, :, None].astype(np.float64))


@pytest.mark.parametrize("aim", Aim)
def test_specialists_are_chosen_and_judged_by_data_that_did_not_choose_them(aim: Aim) -> None:
    found = select(specialists(0), range(2, 6), seed=0, aim=aim)
    assert found.members == ("a", "b", "c")
    assert found.families == {"x": "a", "y": "b", "z": "c"}
    assert found.same == 1
    assert found.held.best.low < 0.9 < found.held.best.high
    assert found.held.reduction.low < (0.9 - 0.5) / 0.5 < found.held.reduction.high
    assert found.held.gain.low > 0.2
    with pytest.raises(ValueError, match="alone"):
        select(OutcomeTable(tuple("abcde"), ("x",) * 900, specialists(0).rewards), [2], seed=0)


def test_luck_reduces_no_error_where_it_did_not_choose() -> None:
    rng = np.random.default_rng(5)
    rewards = (rng.random((600, 8)) < 0.5).astype(np.float64)[:, :, None]
    families = tuple("uvwxyz"[question % 6] for question in range(600))
    found = select(OutcomeTable(tuple("abcdefgh"), families, rewards), [3], seed=0)
    assert found.flattering.reduction > 0.03
    assert found.held.reduction.low <= 0 <= found.held.reduction.high


# Recorded answers of real models; the figures of their README are macro averages over domains


@pytest.mark.parametrize(
    ("table", "figures"),
    [
        (replay_data.llmrouter, (0.409, 0.640, 0.696, 0.834)),
        (lambda: replay_data.zeroeval(7), (0.496, 0.536, 0.568, 0.749)),
    ],
)
def test_the_known_figures_of_the_recordings(table: object, figures: tuple[float, ...]) -> None:
    assert callable(table)
    found = headroom(table(), seed=0, by_family=True)
    random, single, family, union = (found.line(way) for way in (Way.RANDOM, Way.SINGLE, Way.FAMILY, Way.UNION))
    assert random is not None and single is not None and family is not None and union is not None  # noqa: PT018
    seen = (random.value.estimate, single.in_sample, family.in_sample, union.value.estimate)
    assert seen == pytest.approx(figures, abs=0.0006)
    assert family.gain is not None
    assert family.gain.low > 0, "choosing by domain is worth something on questions that did not choose"


def test_of_29_models_the_papers_rule_leaves_the_best_one_out() -> None:
    table = replay_data.zeroeval29()
    paper, ours = (select(table, range(2, 8), seed=0, aim=aim) for aim in Aim)
    best = table.models[int((table.weights(by_family=True) @ table.means).argmax())]
    assert best == "o1-mini-2024-09-12"
    assert best not in paper.members
    assert best in ours.members
    assert paper.held.gain.high < -0.15
    assert paper.flattering.reduction > paper.held.reduction.estimate > 0
