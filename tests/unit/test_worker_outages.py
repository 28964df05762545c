"""Repeating a step while the database is away."""

from __future__ import annotations

import time

import pytest

from services.core.errors import DatabaseUnavailable
from worker.outages import through_outage


class Steps:
    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.tries = 0
        self.pauses: list[float] = []

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.failures:
            raise DatabaseUnavailable("away", "wait")
        return "done"


def test_the_pauses_grow_up_to_a_limit() -> None:
    step = Steps(failures=8)
    assert through_outage(step, time.monotonic() + 60, step.pauses.append) == "done"
    assert step.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_no_try_begins_after_the_end() -> None:
    step = Steps(failures=10**6)
    with pytest.raises(DatabaseUnavailable):
        through_outage(step, time.monotonic() + 0.05, step.pauses.append)
    assert step.tries == 1


def test_a_pause_that_is_cut_short_ends_it() -> None:
    step = Steps(failures=10**6)
    with pytest.raises(DatabaseUnavailable):
        through_outage(step, time.monotonic() + 60, lambda seconds: True)
    assert step.tries == 1


def test_other_errors_are_not_repeated() -> None:
    tries: list[int] = []

    def wrong() -> None:
        tries.append(1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        through_outage(wrong, time.monotonic() + 60, lambda seconds: None)
    assert tries == [1]
