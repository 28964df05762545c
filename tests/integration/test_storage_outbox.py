from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from services.core.errors import SpecError
from services.core.events import EventType
from services.core.ids import CampaignId
from services.core.scoring.grade import graded
from services.storage import campaign_states, campaigns, episodes, events, outbox, turns
from services.storage.engine import Database
from services.storage.outbox import Waiting
from services.storage.records import Publishable
from tests.support.storage import Scene, query, scene


def waiting(database: Database, window: int = 64, republish_seconds: float = 60.0) -> list[Waiting]:
    with database.statement() as conn:
        return outbox.waiting(conn, window=window, republish_seconds=republish_seconds)


def take(
    database: Database, counts: Mapping[CampaignId, int], window: int = 64, republish_seconds: float = 60.0
) -> list[Publishable]:
    with database.transaction() as conn:
        return outbox.take(conn, counts, window=window, republish_seconds=republish_seconds)


def put_back(database: Database, rows: list[Publishable]) -> int:
    with database.transaction() as conn:
        return outbox.put_back(conn, rows)


def score(made: Scene, place: int) -> None:
    claim = made.claim(place)
    with made.database.statement() as conn:
        episodes.record_score(conn, claim, graded(1.0), "accepted", [])


def test_what_waits_is_counted_by_state(database: Database) -> None:
    made = scene(database, candidates=5, replicates=2)
    assert waiting(database) == [Waiting(made.campaign, 1.0, queued=0, running=0, ready=10, overdue=False)]
    take(database, {made.campaign: 4})
    made.claim(0)
    score(made, 1)
    assert waiting(database, window=3) == [Waiting(made.campaign, 1.0, queued=2, running=1, ready=4, overdue=False)]
    assert waiting(database, republish_seconds=-1)[0].overdue


def test_a_retry_waits_until_it_is_due(database: Database) -> None:
    made = scene(database, candidates=1, replicates=2)
    claim = made.claim(0)
    with database.statement() as conn:
        episodes.record_failure(conn, claim, "E", "", retry=True, backoff_seconds=60)
    assert waiting(database)[0].ready == 1
    assert [row.episode_id for row in take(database, {made.campaign: 5})] == [made.episodes[1]]


def test_taken_rows_are_marked_and_not_taken_again(database: Database) -> None:
    made = scene(database, candidates=3, replicates=2)
    assert [row.episode_id for row in take(database, {made.campaign: 4})] == list(made.episodes[:4])
    assert [row.episode_id for row in take(database, {made.campaign: 4})] == list(made.episodes[4:])
    assert take(database, {made.campaign: 4}) == []
    assert take(database, {}) == []


def test_campaigns_are_interleaved(database: Database) -> None:
    big = scene(database, candidates=20, replicates=2, name="big")
    small = scene(database, candidates=1, replicates=2, name="small", epoch=big.epoch)
    middle = scene(database, candidates=5, replicates=2, name="middle", epoch=big.epoch)
    names = [row.label.split()[0] for row in take(database, {big.campaign: 6, small.campaign: 2, middle.campaign: 3})]
    assert Counter(names) == {"big": 6, "small": 2, "middle": 3}
    assert names[:3] == ["small", "middle", "big"]
    assert names[-3:] != ["big"] * 3


def test_unsent_rows_are_due_at_once(database: Database) -> None:
    made = scene(database, candidates=2, replicates=2)
    rows = take(database, {made.campaign: 3})
    assert put_back(database, rows) == 3
    assert [row.episode_id for row in take(database, {made.campaign: 3})] == [row.episode_id for row in rows]


def test_putting_back_disturbs_nothing_that_moved_on(database: Database) -> None:
    made = scene(database)
    rows = take(database, {made.campaign: 4})
    running, returned = made.claim(0), made.claim(1)
    score(made, 2)
    with database.statement() as conn:
        episodes.give_back(conn, returned)
    assert put_back(database, rows) == 1
    with database.statement() as conn:
        states = [row[0] for row in query(conn, "select state from episode order by id")]
        assert states == ["running", "pending", "scored", "pending"]
        assert episodes.give_back(conn, running)


def test_messages_that_may_be_lost_are_sent_again_first(database: Database) -> None:
    made = scene(database, candidates=2, replicates=2)
    take(database, {made.campaign: 2})
    made.claim(0)
    assert take(database, {made.campaign: 0}) == []
    rows = take(database, {made.campaign: 1}, republish_seconds=0)
    assert [row.episode_id for row in rows] == [made.episodes[1], made.episodes[2]]


@pytest.mark.parametrize("change", [campaign_states.pause, campaign_states.cancel])
def test_nothing_of_a_stopped_campaign_is_sent(database: Database, change: object) -> None:
    made = scene(database)
    with database.transaction() as conn:
        assert callable(change)
        change(conn, made.campaign, "a test")
    assert waiting(database) == []
    assert take(database, {made.campaign: 4}) == []


def test_what_somebody_holds_is_left_to_them(database: Database) -> None:
    made = scene(database)
    with database.transaction() as holder:
        query(holder, f"select id from episode where id = {made.episodes[0]} for update")
        assert [row.episode_id for row in take(database, {made.campaign: 2})] == [made.episodes[1]]


def test_events_are_put_off_when_they_fail_and_done_once(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        (submitted,) = events.unprocessed(conn)
        scored = events.append(conn, made.campaign, EventType.EPISODE_SCORED, {"note": "\x00"})
        events.append(conn, made.campaign, EventType.BUDGET_EXHAUSTED, {})
        assert events.mark_failed(conn, submitted.id, "boom\x00") == 1
        assert [event.id for event in events.unprocessed(conn)] == [scored]
        assert events.unprocessed(conn)[0].payload == {"note": "\x00"}
        assert events.mark_failed(conn, submitted.id, "boom") == 2
        events.mark_processed(conn, [scored, submitted.id])
        events.mark_processed(conn, [])
        assert events.mark_failed(conn, submitted.id, "late") == 0
        assert events.unprocessed(conn) == []
        assert events.history(conn, made.campaign, limit=1)[0].type is EventType.BUDGET_EXHAUSTED


def test_events_of_a_campaign_with_unfinished_episodes_are_done_with(database: Database) -> None:
    busy = scene(database, candidates=1, replicates=2, name="busy")
    idle = scene(database, candidates=1, replicates=1, name="idle", epoch=busy.epoch)
    score(busy, 0)
    score(idle, 0)
    with database.transaction() as conn:
        campaign_states.pause(conn, busy.campaign, "a test")
        campaign_states.resume(conn, busy.campaign)
    with database.transaction() as conn:
        due = {each.campaign_id: each for each in events.due(conn)}
        assert (due[busy.campaign].busy, due[busy.campaign].resumed, len(due[busy.campaign].ids)) == (True, True, 3)
        assert (due[idle.campaign].busy, due[idle.campaign].resumed, len(due[idle.campaign].ids)) == (False, False, 2)
        assert {event.campaign_id for event in events.unprocessed(conn)} == {idle.campaign}
        assert [each.campaign_id for each in events.due(conn)] == [idle.campaign]


def test_listing_campaigns(database: Database) -> None:
    first = scene(database, name="one")
    second = scene(database, name="two", epoch=first.epoch)
    with database.transaction() as conn:
        campaign_states.pause(conn, first.campaign, "x")
        assert [record.name for record in campaigns.list_all(conn)] == ["one", "two"]
        assert turns.running(conn) == [second.campaign]
        with pytest.raises(SpecError):
            campaigns.by_id(conn, type(first.campaign)(999))
