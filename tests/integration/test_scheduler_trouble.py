"""Failing episodes, lost leases and long replays: what a leader does about them, and what it leaves alone."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from scheduler.fits import StillComputing
from scheduler.memory import Memory
from scheduler.searches import Searches
from scheduler.sweep import Sweep
from services.core.errors import LeadershipLost
from services.core.ids import CampaignId
from services.core.scoring.grade import graded
from services.core.states import CampaignState
from services.storage import campaign_states, episodes, failures, leadership, turns
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from services.telemetry import logs
from tests.support.campaigns import small_campaign, submit
from tests.support.player import Player
from tests.support.scheduling import record, scheduling, wait_for_state
from tests.support.storage import Scene, query, scene
from tests.support.waiting import wait_for


def sweeping(made: Scene, grace_seconds: float = 0.0) -> Sweep:
    return Sweep(made.database, made.epoch, grace_seconds, Memory(), logs.logger("test"))


def states(database: Database) -> set[str]:
    with database.transaction() as conn:
        return {row[0] for row in query(conn, "select distinct state from episode")}


def test_one_failed_episode_keeps_no_other_from_its_reward(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign())
    first = threading.Event()

    def plays(claim: ClaimedEpisode) -> bool:
        if not first.is_set():
            first.set()
            raise RuntimeError("the provider refused this one")
        return True

    with scheduling(database_url, broker_url), Player(database, plays=plays):
        paused = wait_for_state(database, campaign_id, CampaignState.PAUSED)
        assert paused.stop_reason is not None
        assert "failed for good: c" in paused.stop_reason
        assert paused.stop_reason.endswith("(RuntimeError); see `manage.py campaign show small`")
        assert states(database) == {"scored", "failed"}
        with database.transaction() as conn:
            assert query(conn, "select count(*) from episode where state = 'scored'") == [(13,)]
            campaign_states.resume(conn, campaign_id)
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def fail(made: Scene, places: range, retry: bool = True) -> None:
    for place in places:
        claim = made.claim(place)
        with made.database.statement() as conn:
            episodes.record_failure(conn, claim, "ProviderUnavailable", "down", retry=retry, backoff_seconds=0.001)


def score(made: Scene, places: range) -> None:
    for place in places:
        claim = made.claim(place)
        with made.database.statement() as conn:
            episodes.record_score(conn, claim, graded(1.0), "accepted", [])


def newest(database: Database) -> list[tuple[int, dict[str, int]]]:
    with database.transaction() as conn:
        return [(ended.attempts, dict(ended.failed)) for ended in failures.newest_ended(conn, 50)]


def test_how_attempts_ended_lately_is_counted_from_the_newest_ones(database: Database) -> None:
    made = scene(database, candidates=40, replicates=2, max_attempts=9)
    score(made, range(10))
    assert newest(database) == [], "nothing went wrong"
    fail(made, range(10, 13))
    with database.statement() as conn:
        episodes.give_back(conn, made.claim(20))
    assert newest(database) == [(13, {"ProviderUnavailable": 3})]
    made.claim(30, lease_seconds=0.0)
    sweeping(made).run()
    assert newest(database) == [(14, {"ProviderUnavailable": 3, "LeaseExpired": 1})]
    score(made, range(31, 80))
    assert newest(database) == [(50, {"LeaseExpired": 1})]


def test_attempts_from_before_a_resume_do_not_count(database: Database) -> None:
    made = scene(database, candidates=20, replicates=2, max_attempts=9)
    fail(made, range(30))
    with database.transaction() as conn:
        campaign_states.pause(conn, made.campaign, "the provider is down")
        campaign_states.resume(conn, made.campaign)
    assert newest(database) == []
    fail(made, range(2))
    assert newest(database) == [(2, {"ProviderUnavailable": 2})]


def test_returned_attempts_say_nothing(database: Database) -> None:
    made = scene(database)
    with database.statement() as conn:
        episodes.give_back(conn, made.claim(0))
    assert newest(database) == []


def test_a_provider_outage_pauses_the_campaign_with_its_reason(
    database: Database, database_url: str, broker_url: str
) -> None:
    campaign_id = submit(database, small_campaign(search=small_campaign().search.__class__(10, 4, 2, 0.1)))

    def down(claim: ClaimedEpisode) -> bool:
        raise RuntimeError("the provider is down")

    with scheduling(database_url, broker_url):
        wait_for_state(database, campaign_id, CampaignState.RUNNING)
        with Player(database, plays=down):
            paused = wait_for_state(database, campaign_id, CampaignState.PAUSED)
        assert paused.stop_reason is not None
        assert "attempts failed (RuntimeError " in paused.stop_reason or "failed for good" in paused.stop_reason
        with database.transaction() as conn:
            campaign_states.resume(conn, campaign_id)
        with Player(database):
            wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_no_lease_expires_within_the_grace_of_a_new_office(database: Database) -> None:
    made = scene(database)
    made.claim(0, lease_seconds=0.0)
    assert sweeping(made, grace_seconds=60.0).run() == 0
    assert sweeping(made).run() == 1


def test_no_lease_expires_after_a_gap_of_the_leaders_own(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene(database)
    now = 1000.0
    monkeypatch.setattr("scheduler.sweep.time.monotonic", lambda: now)
    sweep = sweeping(made, grace_seconds=30.0)
    now += 40.0
    assert sweep.run() == 0, "the gap began a new grace"
    made.claim(0, lease_seconds=0.0)
    for _ in range(29):
        now += 1.0
        assert sweep.run() == 0
    now += 1.0
    assert sweep.run() == 1


def test_a_deposed_leader_sweeps_nothing(database: Database) -> None:
    made = scene(database)
    made.claim(0, lease_seconds=0.0)
    sweep = sweeping(made)
    with database.transaction() as conn:
        leadership.take_office(conn)
    with pytest.raises(LeadershipLost):
        sweep.run()
    assert states(database) == {"running", "pending"}


def test_lost_leases_are_sent_again_at_once(database: Database, database_url: str, broker_url: str) -> None:
    campaign_id = submit(database, small_campaign())
    with (
        scheduling(database_url, broker_url),
        Player(database, plays=lambda claim: claim.attempt > 1, lease_seconds=0.1),
    ):
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_a_long_replay_is_done_bit_by_bit(database: Database, database_url: str, broker_url: str) -> None:
    campaign_id = submit(database, small_campaign(search=small_campaign().search.__class__(4, 1, 6, 0.1)))
    with scheduling(database_url, broker_url), Player(database):
        wait_for(partial(has_closed, database, campaign_id, 5), seconds=30, what="five generations")
    searches = Searches(patience_seconds=0.0)
    memory = Memory(searches)
    with database.transaction() as conn:
        brief = turns.brief(conn, campaign_id)
        last = turns.newest(conn, campaign_id)
        campaign = memory.campaign(conn, campaign_id, brief.spec_sha256)
        tries = 0
        while True:
            tries += 1
            try:
                search = searches.at(conn, brief, campaign, last)
            except StillComputing:
                continue
            break
        assert tries > 3
        assert Searches().at(conn, brief, campaign, last).checksum() == search.checksum()
    assert not searches.warm(0.0)
    if record(database, campaign_id).state is CampaignState.RUNNING:
        with scheduling(database_url, broker_url), Player(database):
            wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def has_closed(database: Database, campaign_id: CampaignId, count: int) -> bool:
    with database.transaction() as conn:
        closed = f"select count(*) from generation where campaign_id = {campaign_id} and state = 'closed'"
        return bool(query(conn, closed)[0][0] >= count)
