"""A product without one of its safeguards: what goes wrong then is found by the audit, and by nothing else.

The fence is the condition on claim and attempt in every write of a worker. The leader's lock is given back by leaving
a block, and a leader that shows no sign of life is put out of office.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal

import pytest
from sqlalchemy import TextClause, text

from scheduler.loop import Pace, Scheduler
from scheduler.office import Office
from services.core.errors import LeaseLost
from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.core.states import CampaignState
from services.queue.app import make_app
from services.queue.publish import Publisher
from services.storage import campaigns, episodes, generations, leadership, leases, ledger
from services.storage.audit import Patience
from services.storage.engine import Database
from services.storage.leadership import LeaderLock
from services.storage.records import ClaimedEpisode
from services.telemetry import logs
from tests.support.auditing import assert_clean, findings
from tests.support.campaigns import small_campaign, submit
from tests.support.player import Player
from tests.support.storage import worker_turn
from tests.support.story import LIMITS, Stage
from tests.support.waiting import wait_for

FENCE = " and e.attempt = {0}.attempt and e.state = 'running' and e.lease_owner = {0}.owner"
IMPATIENT = Patience(progress=0.5)


def without(statement: TextClause, part: str) -> TextClause:
    assert part in statement.text, f"{part!r} is not in the statement any more; mutate it otherwise"
    return text(statement.text.replace(part, ""))


@pytest.fixture
def stage(database: Database) -> Stage:
    stage = Stage(database)
    stage.take_office()
    return stage


def lost(stage: Stage, campaign_id: CampaignId) -> ClaimedEpisode:
    """Return a claim whose lease was taken back while its worker was away."""
    claim = stage.claim(stage.due(campaign_id)[0], lease_seconds=0.0)
    with stage.database.transaction() as conn:
        assert leases.expire(conn, epoch=stage.epoch) == 1
    return claim


def score_late(stage: Stage, claim: ClaimedEpisode, reward: float = 0.5) -> None:
    with stage.database.statement() as conn:
        episodes.record_score(conn, claim, graded(reward), "turn_limit", [worker_turn()])


def call_late(stage: Stage, claim: ClaimedEpisode) -> None:
    with stage.database.statement() as conn:
        ledger.reserve_call(
            conn,
            claim,
            turn=1,
            try_=1,
            agent=0,
            model="ada",
            role=Role.WORKER,
            tokens=100,
            usd=Decimal("0.001"),
            lease_seconds=60.0,
        )


def test_with_the_fence_late_workers_are_refused(stage: Stage) -> None:
    campaign_id = submit(stage.database, small_campaign())
    stage.advance(campaign_id)
    claim = lost(stage, campaign_id)
    stage.claim(claim.episode_id)
    with pytest.raises(LeaseLost):
        score_late(stage, claim)
    with pytest.raises(LeaseLost):
        call_late(stage, claim)
    assert_clean(stage.database)


def test_without_the_fence_a_late_score_takes_the_place_of_the_attempt_under_way(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = submit(stage.database, small_campaign())
    stage.advance(campaign_id)
    claim = lost(stage, campaign_id)
    stage.claim(claim.episode_id)
    monkeypatch.setattr(episodes, "SCORE", without(episodes.SCORE, FENCE.format("s")))
    with suppress(LeaseLost):  # it believes so, yet it has written
        score_late(stage, claim)
    assert set(findings(stage.database)) == {"I2"}


def test_without_the_fence_a_late_score_changes_a_closed_generation(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = submit(stage.database, small_campaign())
    stage.advance(campaign_id)
    claim = lost(stage, campaign_id)
    stage.play(campaign_id)
    assert_clean(stage.database)
    monkeypatch.setattr(episodes, "SCORE", without(episodes.SCORE, FENCE.format("s")))
    with suppress(LeaseLost), stage.database.statement() as conn:
        episodes.record_score(conn, claim, graded(0.5), "turn_limit", [])
    assert set(findings(stage.database)) == {"I1", "I2"}


def test_without_the_fence_a_lost_attempt_goes_on_calling(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_id = submit(stage.database, small_campaign())
    stage.advance(campaign_id)
    claim = lost(stage, campaign_id)
    stage.claim(claim.episode_id)
    monkeypatch.setattr(ledger, "RESERVE", without(ledger.RESERVE, FENCE.format("w")))
    call_late(stage, claim)
    assert set(findings(stage.database)) == {"I5"}


@contextmanager
def scheduling(database_url: str, broker_url: str) -> Iterator[None]:
    database = Database(database_url, application_name="trinity scheduler")
    pace = Pace(poll_seconds=0.05, republish_seconds=60.0, window=64, grace_seconds=0.0)
    scheduler = Scheduler(database, Publisher(make_app(broker_url)), pace, logs.logger("test"))
    thread = threading.Thread(target=scheduler.run, daemon=True)
    thread.start()
    yield
    scheduler.stop.set()
    thread.join(timeout=10)
    scheduler.publisher.close()
    database.close()


def closed(database: Database, campaign_id: CampaignId) -> int:
    with database.transaction() as conn:
        return len(generations.history(conn, campaign_id))


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set it, and the leader's loop meets an error that has nothing to do with the database, once."""
    due = threading.Event()
    step = Office._step

    def crash_once(office: Office) -> float:
        if due.is_set():
            due.clear()
            raise RuntimeError("a mistake in the leader's loop")
        return step(office)

    monkeypatch.setattr(Office, "_step", crash_once)
    return due


def test_a_leader_that_leaves_by_an_error_lets_the_next_one_in(
    database: Database, database_url: str, broker_url: str, crashing: threading.Event
) -> None:
    campaign_id = submit(database, small_campaign())
    with scheduling(database_url, broker_url), Player(database):
        wait_for(lambda: closed(database, campaign_id), seconds=20, what="a closed generation")
        crashing.set()
        wait_for(lambda: completed(database, campaign_id), seconds=30, what="the campaign to complete")
    assert_clean(database)


def test_a_database_in_use_is_clean_at_every_moment(database: Database, database_url: str, broker_url: str) -> None:
    stage = Stage(database)

    def calls(claim: ClaimedEpisode) -> bool:
        stage.call(claim)
        return True

    ids = [submit(database, small_campaign(name=name, budget=LIMITS)) for name in ("one", "two", "three")]
    looks = 0
    with scheduling(database_url, broker_url), Player(database, plays=calls):
        while not all(completed(database, each) for each in ids):
            assert_clean(database)
            looks += 1
    assert_clean(database)
    assert looks > 3, "it was looked at while it changed"


def completed(database: Database, campaign_id: CampaignId) -> bool:
    with database.transaction() as conn:
        return campaigns.by_id(conn, campaign_id).state is CampaignState.COMPLETED


def test_with_a_leaked_lock_nothing_moves_any_more(
    database: Database,
    database_url: str,
    broker_url: str,
    crashing: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaked: list[object] = []
    monkeypatch.setattr(LeaderLock, "__exit__", lambda lock, *_: leaked.append(lock))
    monkeypatch.setattr(leadership, "end_frozen", lambda conn: 0)
    submit(database, small_campaign())
    with scheduling(database_url, broker_url), Player(database) as player:
        crashing.set()
        wait_for(lambda: leaked and not crashing.is_set(), seconds=20, what="the leader to fail")
        wait_for(lambda: set(findings(database, IMPATIENT)) == {"I8"}, seconds=10, what="the audit to see it")
        (verdict, *_) = findings(database, IMPATIENT)["I8"]
        assert "holds the lock of the leader" in verdict.found
        assert player.played == 0
    for lock in leaked:
        assert isinstance(lock, LeaderLock)
        lock.close()
