from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.fairness import Load, allotments, filled, interleaved, shares, water_level

LOADS = st.dictionaries(
    st.integers(1, 99),
    st.builds(
        Load,
        st.one_of(st.sampled_from([0.1, 0.5, 1.0, 1.0, 2.0, 10.0]), st.floats(1e-6, 1e6)),
        st.integers(0, 300),
        st.integers(0, 300),
    ),
    max_size=12,
)
WINDOWS = st.integers(1, 400)


def busy(loads: dict[int, Load]) -> list[Load]:
    return [load for load in loads.values() if load.demand]


@given(WINDOWS, LOADS)
def test_shares_fill_the_window_and_never_pass_it(window: int, loads: dict[int, Load]) -> None:
    given_out = sum(shares(window, loads).values())
    wanted = sum(load.demand for load in loads.values())
    assert given_out == max(min(window, wanted), len(busy(loads)))


@given(WINDOWS, LOADS)
def test_what_is_in_flight_passes_the_window_only_by_what_others_still_drain(
    window: int, loads: dict[int, Load]
) -> None:
    share, sent = shares(window, loads), allotments(window, loads)
    after = {key: load.in_flight + sent[key] for key, load in loads.items()}
    draining = sum(max(0, load.in_flight - share[key]) for key, load in loads.items())
    assert sum(after.values()) <= max(window, len(busy(loads))) + draining
    assert all(after[key] <= share[key] for key in loads if sent[key])


@given(WINDOWS, LOADS)
def test_no_place_stays_free_while_somebody_could_use_it(window: int, loads: dict[int, Load]) -> None:
    sent = allotments(window, loads)
    after = sum(load.in_flight + sent[key] for key, load in loads.items())
    left = sum(load.ready - sent[key] for key, load in loads.items())
    assert left == 0 or after >= window


@given(WINDOWS, LOADS)
def test_everybody_with_something_to_send_has_at_least_one_in_flight(window: int, loads: dict[int, Load]) -> None:
    sent = allotments(window, loads)
    assert all(load.in_flight + sent[key] >= 1 for key, load in loads.items() if load.ready)
    assert all(0 <= sent[key] <= load.ready for key, load in loads.items())


@given(WINDOWS, LOADS)
def test_shares_are_in_proportion_to_the_weights_within_one(window: int, loads: dict[int, Load]) -> None:
    level = water_level(window, busy(loads))
    for key, share in shares(window, loads).items():
        if loads[key].demand:
            assert abs(share - filled(loads[key], level)) < 1 + 1e-6


@given(WINDOWS, LOADS)
def test_a_campaign_that_wants_more_has_no_smaller_share_per_weight(window: int, loads: dict[int, Load]) -> None:
    """Max-min fairness: taking from one to give to another would only hurt somebody poorer."""
    share = shares(window, loads)
    hungry = [key for key, load in loads.items() if share[key] < load.demand]
    for key in hungry:
        for other, load in loads.items():
            if share[other] > 1:
                assert (share[key] + 1) / loads[key].weight >= (share[other] - 1) / load.weight * (1 - 1e-9)


@pytest.mark.parametrize(
    ("window", "weights", "expected"),
    [
        (64, [1, 1], [32, 32]),
        (64, [3, 1], [48, 16]),
        (10, [1, 1, 1], [4, 3, 3]),
        (2, [1, 1, 1], [1, 1, 1]),
        (64, [1000, 1], [63, 1]),
    ],
)
def test_hungry_campaigns_share_by_weight(window: int, weights: list[float], expected: list[int]) -> None:
    loads = {place: Load(weight, 0, 5000) for place, weight in enumerate(weights)}
    assert list(shares(window, loads).values()) == expected


def test_what_a_small_campaign_cannot_use_goes_to_the_others() -> None:
    loads = {"tail": Load(1, 3, 0), "big": Load(1, 20, 5000), "late": Load(2, 0, 2)}
    assert shares(64, loads) == {"tail": 3, "big": 59, "late": 2}
    assert allotments(64, loads) == {"tail": 0, "big": 39, "late": 2}


def test_a_late_campaign_does_not_wait_until_a_full_window_drains() -> None:
    assert allotments(64, {"big": Load(1, 64, 5000), "late": Load(1, 0, 500)}) == {"big": 0, "late": 32}


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 60), max_size=6))
def test_messages_are_spread_evenly(counts: dict[int, int]) -> None:
    order = interleaved(counts)
    assert {key: order.count(key) for key in counts} == counts
    for key, count in counts.items():
        places = [place for place, found in enumerate(order) if found == key]
        for before, after in pairwise(places):
            assert all(order[before:after].count(other) <= -(-counts[other] // count) + 1 for other in counts)
        blocks = [len(list(run)) for found, run in groupby(order) if found == key]
        most = max((number for other, number in counts.items() if other != key), default=0)
        assert not most or max(blocks, default=0) <= -(-count // most) + 1


def test_the_small_one_comes_first() -> None:
    assert interleaved({"big": 6, "small": 2}) == ["small", "big", "big", "big", "small", "big", "big", "big"]
