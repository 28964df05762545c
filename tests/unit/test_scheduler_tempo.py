from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch import Round
from scheduler.tempo import SHORTEST_SECONDS, Tempo

LONGEST = 0.25


def simulated(window: int, slots: int, rate: float, seconds: float) -> tuple[float, float]:
    """Return looks a second and the share of time in which a slot was free, once things have settled.

    Episodes end evenly at ``rate`` a second while all slots are busy.
    """
    tempo, in_flight, now, pause = Tempo(LONGEST), 0, 0.0, 0.0
    looks, idle = 0, 0.0
    while now < seconds:
        now += pause
        ended = min(in_flight, round(rate * pause))
        short = max(0.0, pause - max(0, in_flight - slots) / rate)
        before = in_flight - ended
        in_flight = window
        pause = tempo.next_pause(Round(0, before, window, max(0, window - slots), True), pause)
        if now > seconds / 2:
            looks, idle = looks + 1, idle + short
    return looks / (seconds / 2), idle / (seconds / 2)


def test_workers_never_wait_when_episodes_take_no_time() -> None:
    looks, idle = simulated(window=64, slots=16, rate=600.0, seconds=20)
    assert looks < 60
    assert idle < 0.02


def test_long_episodes_are_looked_after_by_the_poll_alone() -> None:
    looks, _ = simulated(window=64, slots=16, rate=2.0, seconds=60)
    assert looks <= 1 / LONGEST + 1


def test_an_idle_scheduler_polls() -> None:
    tempo = Tempo(LONGEST)
    assert tempo.next_pause(Round(0, 0, 0, 0, False), 1.0) == LONGEST
    assert tempo.next_pause(Round(10, 0, 10, 10, False), 0.25) == LONGEST


def test_a_full_window_that_does_not_move_slows_down_to_the_poll() -> None:
    tempo = Tempo(LONGEST)
    pauses = [tempo.next_pause(Round(0, 64, 64, 48, True), 0.1) for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST


@pytest.mark.parametrize("window", [1, 4, 64])
@given(st.lists(st.tuples(st.integers(0, 64), st.booleans(), st.floats(0, 10)), max_size=20))
def test_the_wait_stays_within_its_bounds(window: int, seen: list[tuple[int, bool, float]]) -> None:
    tempo = Tempo(LONGEST)
    for before, backlog, elapsed in seen:
        pause = tempo.next_pause(Round(window - before, min(before, window), window, window, backlog), elapsed)
        assert SHORTEST_SECONDS <= pause <= LONGEST
