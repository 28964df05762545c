"""Outages of broker and database in mid-generation: the campaign goes on by itself and ends as without them.

TRINITY_TEST_FULL=1 adds the others and the long one.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.core.errors import DatabaseUnavailable
from services.storage import campaigns
from tests.chaos import mischief, readings
from tests.chaos.load import Size, Submitter
from tests.chaos.nursery import Nursery
from tests.chaos.readings import Results
from tests.chaos.system import Server, System
from tests.chaos.witness import Witness
from tests.support.tiny_qwen3 import build_tiny_qwen3
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

SIZE = Size("outage", 7, 1.0, 4, 6, 2, 2)
LEASE_SECONDS = 15.0
SETTINGS: Mapping[str, str] = {
    "TRINITY_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "TRINITY_HEARTBEAT_SECONDS": "2",
    "TRINITY_REPUBLISH_SECONDS": "3",
}
FULL = os.environ.get("TRINITY_TEST_FULL") == "1"


@dataclass(frozen=True)
class Bench:
    """A running product and a way to give it work."""

    system: System
    submitter: Submitter
    witness: Witness

    def submit(self, name: str) -> None:
        self.submitter.submit(SIZE, name)

    def scored(self, name: str) -> list[float]:
        """Return when the campaign's episodes were scored; nothing while the database is away."""
        try:
            with self.system.database() as database, database.transaction() as conn:
                return readings.scored_at(conn, name)
        except DatabaseUnavailable:
            return []

    def complete(self, name: str) -> Results:
        """Wait until a campaign is complete; it must never need a person."""

        def done() -> bool:
            with self.system.database() as database, database.transaction() as conn:
                record = campaigns.by_name(conn, name)
            assert record.state in ("submitted", "running", "completed"), (record.state, record.stop_reason)
            return record.state == "completed"

        wait_for(done, seconds=150, what=f"{name} to complete", pause=0.2)
        with self.system.database() as database, database.transaction() as conn:
            return readings.results(conn, name)

    def repeated(self, name: str) -> list[readings.Attempt]:
        with self.system.database() as database, database.transaction() as conn:
            return [attempt for attempt in readings.attempts(conn, name) if attempt.outcome != "done"]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    # Short and readable for all: a socket path has a limit, and as root the server runs as another user.
    with tempfile.TemporaryDirectory(prefix="trinity-out-", dir="/tmp", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        folder.chmod(0o755)
        encoder = build_tiny_qwen3(folder / "encoder")
        with (
            Nursery(folder) as nursery,
            Witness() as witness,
            System(folder, nursery=nursery, workers=2, schedulers=1, settings=SETTINGS) as system,
        ):
            yield Bench(system, Submitter(folder, encoder, witness, system.environment), witness)


@pytest.fixture(scope="module")
def undisturbed(bench: Bench) -> Results:
    bench.submit("undisturbed")
    return bench.complete("undisturbed")


def away(seconds: float, *servers: Server) -> None:
    """Kill servers at once and let them stay away."""
    for server in servers:
        server.away.set()
        server.kill()
    threading.Event().wait(seconds)
    for server in servers:
        server.away.clear()
    for server in servers:
        wait_for(lambda server=server: server.service.pid(), seconds=60, what=server.kind)  # type: ignore[misc]


def end(server: Server, number: signal.Signals) -> None:
    """End a server by a signal and wait until it runs again."""
    pid = server.service.pid()
    assert pid is not None
    os.kill(pid, number)
    wait_for(lambda: server.service.pid() not in (None, pid), seconds=60, what=f"another {server.kind}")


def flush(system: System) -> None:
    with mischief.client(system) as connection:
        connection.flushall()


OUTAGES: Mapping[str, Callable[[System], None]] = {
    "redis-flushed": flush,
    "redis-terminated": lambda system: end(system.redis, signal.SIGTERM),
    "redis-killed": lambda system: end(system.redis, signal.SIGKILL),
    "postgres-immediate": lambda system: end(system.postgres, signal.SIGQUIT),
    "postgres-killed": lambda system: end(system.postgres, signal.SIGKILL),
    "both-away-6-s": lambda system: away(6.0, system.postgres, system.redis),
}


# Each of the two alone is part of the storm in tests/acceptance.
@pytest.mark.parametrize("name", OUTAGES if FULL else ["redis-flushed", "both-away-6-s"])
def test_a_campaign_survives_an_outage_without_losing_an_attempt(
    bench: Bench, undisturbed: Results, name: str, record_property: Callable[[str, object], None]
) -> None:
    resumed = disturb(bench, name, OUTAGES[name])
    record_property("seconds until the next result", resumed)

    assert bench.complete(name).differences(undisturbed) == []
    assert bench.repeated(name) == []
    assert resumed < LEASE_SECONDS


@pytest.mark.skipif(not FULL, reason="takes two minutes; TRINITY_TEST_FULL=1 runs it")
def test_a_campaign_goes_on_after_both_were_away_for_90_seconds(
    bench: Bench, undisturbed: Results, record_property: Callable[[str, object], None]
) -> None:
    resumed = disturb(bench, "both-away-90-s", lambda system: away(90.0, system.postgres, system.redis))
    record_property("seconds until the next result", resumed)

    assert bench.complete("both-away-90-s").differences(undisturbed) == []
    assert resumed < 2 * LEASE_SECONDS


def disturb(bench: Bench, name: str, outage: Callable[[System], None]) -> float:
    """Cause an outage in mid-generation and return how many seconds after it the next result came."""
    bench.submit(name)
    wait_for(lambda: len(bench.scored(name)) >= 8, seconds=90, what="a third of generation 0", pause=0.02)
    outage(bench.system)
    over = time.time()

    def later() -> list[float]:
        return [at for at in bench.scored(name) if at > over]

    resumed = wait_for(later, seconds=120, what="the next result", pause=0.1)[0] - over
    sys.stderr.write(f"{name}: the next result came {resumed:.2f} s after the outage\n")
    return resumed
