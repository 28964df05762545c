"""McNemar's test, Holm's correction and the front of price and quality."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.statistics.frontier import pareto_front
from services.core.statistics.paired_tests import Discordance, discordance, holm, mcnemar

P_VALUES = st.lists(st.floats(0, 1), max_size=12)
POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def test_mcnemar_known_values() -> None:
    """Sign test of 1 against 9: 2 (1 + 10) / 2^10; six of six: 2 / 2^6; nothing discordant says nothing."""
    assert mcnemar(1, 9) == pytest.approx(22 / 1024)
    assert mcnemar(6, 0) == pytest.approx(2 / 64)
    assert mcnemar(0, 0) == mcnemar(4, 4) == 1


@pytest.mark.parametrize("trials", range(1, 9))
def test_mcnemar_is_the_share_of_coin_tosses_at_least_as_uneven(trials: int) -> None:
    tosses = [sum(toss) for toss in product((0, 1), repeat=trials)]
    for wins in range(trials + 1):
        uneven = sum(abs(2 * heads - trials) >= abs(2 * wins - trials) for heads in tosses)
        assert mcnemar(wins, trials - wins) == pytest.approx(uneven / len(tosses))


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_symmetric_and_falls_with_the_distance(wins: int, losses: int) -> None:
    p = mcnemar(wins, losses)
    assert 0 < p <= 1
    assert p == mcnemar(losses, wins)
    if wins >= losses > 0:
        assert mcnemar(wins + 1, losses - 1) <= p


def test_mcnemar_holds_at_large_counts() -> None:
    assert mcnemar(5_000, 5_000) == 1
    assert mcnemar(5_196, 4_804) == pytest.approx(9.1e-5, rel=0.05)  # 3.92 standard deviations, by the normal tail
    assert mcnemar(3_000, 0) == pytest.approx(0, abs=1e-300)


def test_mcnemar_keeps_its_level_under_no_difference() -> None:
    discordant = 30
    refused = sum(comb(discordant, wins) for wins in range(discordant + 1) if mcnemar(wins, discordant - wins) <= 0.05)
    assert 0.01 < refused / 2**discordant <= 0.05


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_every_problem_is_a_win_a_loss_or_a_tie(pairs: list[tuple[float, float]]) -> None:
    a, b = [one for one, _ in pairs], [other for _, other in pairs]
    found, back = discordance(a, b), discordance(b, a)
    assert found.wins + found.losses + found.ties == len(pairs)
    assert (found.wins, found.losses, found.p) == (back.losses, back.wins, back.p)
    assert discordance(a, a) == Discordance(0, 0, len(a))


def test_holm_known_values() -> None:
    """Holm 1979: of 0.01, 0.04, 0.03 and 0.005 the least is multiplied by four, the next by three, ..."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()
    assert holm([0.2]) == (0.2,)


@given(P_VALUES)
def test_holm_keeps_the_order_and_lies_between_no_correction_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, own in zip(p_values, adjusted, strict=True):
        assert p <= own <= max(p, min(1.0, len(p_values) * p)) + 1e-12
    by_p = [own for _, own in sorted(zip(p_values, adjusted, strict=True))]
    assert by_p == sorted(by_p)


def test_holm_holds_the_error_rate_of_the_whole_family() -> None:
    rng = np.random.default_rng(3)
    families = rng.uniform(size=(4_000, 6))
    assert np.mean([min(holm(p_values.tolist())) <= 0.05 for p_values in families]) == pytest.approx(0.05, abs=0.012)


@given(POINTS)
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    costs, values = [float(cost) for cost, _ in points], [float(value) for _, value in points]
    front = pareto_front(costs, values)
    for at, (cost, value) in enumerate(points):
        dominated = any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in points)
        assert (at in front) is not dominated
    assert [costs[at] for at in front] == sorted(costs[at] for at in front)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="counts"):
        mcnemar(-1, 2)
    with pytest.raises(ValueError, match="p-values"):
        holm([1.2])
    with pytest.raises(ValueError, match="got 2 and 1"):
        discordance([1, 2], [1])
    with pytest.raises(ValueError, match="finite"):
        discordance([float("nan")], [1.0])
    for costs, values in (([1.0], []), ([float("inf")], [1.0])):
        with pytest.raises(ValueError, match="finite"):
            pareto_front(costs, values)
