from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from services.core.errors import LeadershipLost, LeaseLost
from services.core.events import EventType
from services.core.ids import CallId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.storage import campaign_states, campaigns, episodes, events, leadership, leases, ledger
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode, Settlement
from tests.support.storage import query, scene


def reserve(database: Database, claim: ClaimedEpisode, turn: int = 1) -> CallId:
    with database.statement() as conn:
        return ledger.reserve_call(
            conn,
            claim,
            turn=turn,
            try_=1,
            agent=0,
            model="m",
            role=Role.WORKER,
            tokens=100,
            usd=Decimal("0.25"),
            lease_seconds=0.0,
        )


def expire(database: Database, epoch: int, orphan_seconds: float = 3600.0) -> int:
    with database.transaction() as conn:
        return leases.expire(conn, epoch=epoch, orphan_seconds=orphan_seconds)


def test_a_heartbeat_extends_what_is_owned_and_reports_the_rest_by_silence(database: Database) -> None:
    made = scene(database)
    mine, lost, foreign = made.claim(0), made.claim(1), made.claim(2, owner="other")
    with database.statement() as conn:
        episodes.give_back(conn, lost)
        stale = [replace(mine, attempt=7), lost, replace(foreign, owner="w1")]
        assert leases.heartbeat(conn, [mine, *stale], 3600) == {(mine.episode_id, 1)}
        assert leases.heartbeat(conn, [], 3600) == set()
    with database.transaction() as conn:
        (row,) = query(
            conn, f"select lease_expires_at > now() + '59 minutes' from episode where id = {mine.episode_id}"
        )
        assert row == (True,)


def test_a_paused_campaign_keeps_its_leases_but_stops_its_episodes(database: Database) -> None:
    made = scene(database)
    claim = made.claim(lease_seconds=0.0)
    with database.transaction() as conn:
        campaign_states.pause(conn, made.campaign, "a test")
    with database.statement() as conn:
        assert leases.heartbeat(conn, [claim], 60) == set()
    assert expire(database, made.epoch) == 0
    with database.statement() as conn:
        assert episodes.give_back(conn, claim)


def test_a_lost_attempt_is_booked_at_its_reservations_and_tried_again(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    settled, open_ = reserve(database, claim, 1), reserve(database, claim, 2)
    with database.statement() as conn:
        ledger.settle_call(conn, settled, Settlement(Usage(10, 5), Decimal("0.01"), 1.0))
    assert expire(database, made.epoch) == 1
    assert expire(database, made.epoch) == 0
    with database.statement() as conn:
        assert not ledger.settle_call(conn, open_, Settlement(Usage(1, 1), Decimal("0.002"), 1.0))
    with database.transaction() as conn:
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.usd_charged, spend.usd_reserved) == (Decimal("0.26"), Decimal(0))
        assert (spend.tokens_charged, spend.tokens_reserved) == (115, 0)
        assert query(conn, "select state, estimated from llm_call order by id") == [
            ("settled", False),
            ("unknown", True),
        ]
        types = [event.type for event in events.history(conn, made.campaign)]
        assert types.count(EventType.EPISODE_LEASE_EXPIRED) == 1
    assert made.claim(owner="w2").attempt == 2


def test_an_episode_that_kills_its_workers_fails_at_the_limit(database: Database) -> None:
    made = scene(database, candidates=1, replicates=1, max_attempts=2)
    for _ in range(2):
        made.claim(lease_seconds=0.0)
        assert expire(database, made.epoch) == 1
    with database.transaction() as conn:
        assert query(conn, "select state, failure_kind, attempt from episode") == [("failed", "LeaseExpired", 2)]
        assert EventType.EPISODE_FAILED in [event.type for event in events.unprocessed(conn)]


def test_calls_that_nobody_will_settle_are_booked_in_the_end(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    reserve(database, claim)
    with database.transaction() as conn:
        campaign_states.cancel(conn, made.campaign, "a test")
    expire(database, made.epoch)
    with database.transaction() as conn:
        assert campaigns.by_id(conn, made.campaign).spend.usd_reserved == Decimal("0.25")
    expire(database, made.epoch, orphan_seconds=0.0)
    with database.transaction() as conn:
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.usd_reserved, spend.usd_charged) == (Decimal(0), Decimal("0.25"))


def test_a_lost_lease_can_not_reserve(database: Database) -> None:
    made = scene(database)
    claim = made.claim(lease_seconds=0.0)
    expire(database, made.epoch)
    with pytest.raises(LeaseLost):
        reserve(database, claim)
    with database.transaction() as conn:
        assert campaigns.by_id(conn, made.campaign).spend.calls_started == 0


def test_a_deposed_leader_commits_nothing(database: Database) -> None:
    made = scene(database)
    made.claim(lease_seconds=0.0)
    with database.transaction() as conn:
        epoch = leadership.take_office(conn)
    with pytest.raises(LeadershipLost) as caught:
        expire(database, made.epoch)
    assert (caught.value.epoch, caught.value.current) == (made.epoch, epoch)
    assert expire(database, epoch) == 1
