"""The connection dies at every operation of a heartbeat: the thread lives on and the lease is extended soon after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from services.storage.engine import Database
from tests.support.fault_doubles import Notes, tell
from tests.support.storage import query, scene
from tests.support.waiting import wait_for
from tests.support.wire import Fault, Moment, PostgresRelay
from worker.leases import HeldLeases


@pytest.fixture
def relay(database_url: str) -> Iterator[PostgresRelay]:
    with PostgresRelay.before(database_url) as made:
        yield made


@pytest.mark.parametrize("moment", list(Moment))
def test_a_heartbeat_whose_connection_dies_is_repeated(
    database_url: str, database: Database, relay: PostgresRelay, moment: Moment
) -> None:
    claim = scene(database).claim()
    beating, notes = Database(relay.url(database_url), application_name="trinity worker"), Notes()
    held = HeldLeases(beating, 60.0, 0.01, cast(Any, notes))
    lease = held.hold(claim, 0.0)
    held.beat()
    relay.arm(None)
    held.beat()
    count = relay.count
    held.start()
    for at in range(1, count + 1):
        relay.arm(Fault(at, moment))
        wait_for(lambda: relay.struck is not None, seconds=10, what="the fault", pause=0.01)
        with database.transaction() as conn:
            query(conn, "update episode set lease_expires_at = now() where state = 'running'")
        wait_for(lambda: extended(database), seconds=10, what=f"the lease after a fault at {at}", pause=0.01)
    lease.check()
    held.stop()
    beating.close()
    tell(f"{moment}: {count} operations of a heartbeat")
    assert notes.errors == []


def extended(database: Database) -> bool:
    with database.transaction() as conn:
        statement = "select lease_expires_at > now() + interval '50 seconds' from episode where state = 'running'"
        return bool(query(conn, statement)[0][0])
