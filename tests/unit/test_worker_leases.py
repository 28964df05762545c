"""When an attempt has to stop, and that every kind of waiting notices."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest

from services.core.errors import AttemptInterrupted, DatabaseUnavailable
from services.storage.engine import Database
from services.telemetry import logs
from tests.support.waiting import wait_for
from tests.support.writing import claimed
from worker.leases import HeldLeases, Lease


class Away:
    """A database that is never there."""

    asked = 0

    def statement(self) -> None:
        self.asked += 1
        raise DatabaseUnavailable("away", "wait")


def held_leases(database: object, lease_seconds: float, heartbeat_seconds: float = 0.05) -> HeldLeases:
    return HeldLeases(cast(Database, database), lease_seconds, heartbeat_seconds, logs.logger("test"))


def test_a_fresh_lease_goes_on() -> None:
    Lease(claimed(1), 60.0, time.monotonic()).check()


def test_an_interrupted_attempt_ends_with_the_first_reason() -> None:
    lease = Lease(claimed(1), 60.0, time.monotonic())
    lease.interrupt("the worker is stopping")
    lease.interrupt("its lease is lost")
    with pytest.raises(AttemptInterrupted, match="stopping"):
        lease.check()


def test_an_interrupted_attempt_waits_no_longer() -> None:
    lease = Lease(claimed(1), 60.0, time.monotonic())
    threading.Timer(0.1, lease.interrupt, ["cancelled"]).start()
    begun = time.monotonic()
    with pytest.raises(AttemptInterrupted, match="cancelled"):
        lease.wait(30)
    assert time.monotonic() - begun < 10


def test_a_lease_that_nobody_extended_in_time_is_lost_even_if_the_heartbeat_hangs() -> None:
    lease = Lease(claimed(1), 5.0, time.monotonic() - 6.0)
    with pytest.raises(AttemptInterrupted, match="no heartbeat for 5 s"):
        lease.check()


def test_a_worker_whose_heartbeats_fail_stops_its_attempts_and_goes_on_trying() -> None:
    database = Away()
    held = held_leases(database, lease_seconds=0.3)
    lease = held.hold(claimed(1), time.monotonic())
    held.start()
    try:
        wait_for(lambda: database.asked >= 3, seconds=20, what="heartbeats to be repeated")
        with pytest.raises(AttemptInterrupted):
            lease.wait(0.5)
    finally:
        held.stop()


def test_an_unexpected_error_does_not_end_the_heartbeat() -> None:
    class Broken(Away):
        def statement(self) -> None:
            self.asked += 1
            raise RuntimeError("broken")

    database = Broken()
    held = held_leases(database, lease_seconds=60.0)
    held.hold(claimed(1), time.monotonic())
    held.start()
    try:
        wait_for(lambda: database.asked >= 2, seconds=20, what="a second heartbeat")
    finally:
        held.stop()


def test_what_is_dropped_is_not_interrupted() -> None:
    held = held_leases(Away(), lease_seconds=60.0)
    kept, dropped = held.hold(claimed(1), time.monotonic()), held.hold(claimed(2), time.monotonic())
    held.drop(dropped)
    held.interrupt_all("the worker is stopping")
    dropped.check()
    with pytest.raises(AttemptInterrupted):
        kept.check()
