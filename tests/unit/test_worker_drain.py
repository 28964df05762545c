"""The end of a worker process: interrupts at once, waits for its bound, leaves whatever happens."""

from __future__ import annotations

import queue
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.core.errors import AttemptInterrupted
from services.telemetry import logs
from tests.support.threads import at_once
from tests.support.writing import NoDatabase, claimed
from worker.drain import Drain
from worker.leases import HeldLeases
from worker.runtime import Runtime


def drain_of(seconds: float, database: Any) -> tuple[Drain, HeldLeases, queue.Queue[int]]:
    log = logs.logger("test")
    held = HeldLeases(database, 60.0, 15.0, log)
    runtime = SimpleNamespace(held=held, database=database, log=log, stopping=threading.Event())
    left: queue.Queue[int] = queue.Queue()
    drain = Drain(cast(Runtime, runtime), seconds, left.put)
    drain.start()
    return drain, held, left


def test_attempts_are_interrupted_at_once_and_the_process_ends_after_its_bound() -> None:
    drain, held, left = drain_of(0.5, NoDatabase())
    lease = held.hold(claimed(1), time.monotonic())
    begun = time.monotonic()
    drain.ask()
    with pytest.raises(AttemptInterrupted, match="stopping"):
        lease.wait(20)
    assert left.empty()
    held.drop(lease)
    assert left.get(timeout=20) == 0
    assert time.monotonic() - begun >= 0.5


def test_asking_again_and_from_many_threads_changes_nothing() -> None:
    drain, _, left = drain_of(0.2, NoDatabase())

    def often(_: int) -> None:
        for _ in range(100):
            drain.ask()

    at_once(8, often)
    assert left.get(timeout=20) == 0
    drain.ask()
    time.sleep(0.5)
    assert left.empty()


def test_it_ends_even_if_the_database_is_away() -> None:
    database = NoDatabase(away=10**6)
    drain, held, left = drain_of(0.1, database)
    held.hold(claimed(1), time.monotonic())
    begun = time.monotonic()
    drain.ask()
    assert left.get(timeout=30) == 0
    assert time.monotonic() - begun < 6
    assert database.begun > 1, "it was tried more than once"


def test_it_ends_even_if_the_database_hangs() -> None:
    class Hanging(NoDatabase):
        def transaction(self) -> Any:
            threading.Event().wait()  # for ever: an end of this thread would be told in another test
            raise AssertionError

    drain, held, left = drain_of(0.1, Hanging())
    held.hold(claimed(1), time.monotonic())
    begun = time.monotonic()
    drain.ask()
    assert left.get(timeout=30) == 0
    assert time.monotonic() - begun < 6
