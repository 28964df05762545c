from __future__ import annotations

from collections import Counter

import pytest

from services.core.errors import SpecError
from services.core.events import EventType
from services.storage import campaign_states, campaigns, episodes, events, outbox
from services.storage.engine import Database
from services.storage.records import Publishable
from tests.support.storage import scene


def pending(database: Database, window: int, republish_seconds: float = 60.0) -> list[Publishable]:
    with database.transaction() as conn:
        return outbox.pending(conn, window=window, republish_seconds=republish_seconds)


def mark(database: Database, rows: list[Publishable]) -> int:
    with database.transaction() as conn:
        return outbox.mark_published(conn, rows)


def test_campaigns_take_turns(database: Database) -> None:
    first = scene(database, candidates=20, replicates=2, name="big")
    scene(database, candidates=2, replicates=2, name="small", epoch=first.epoch)
    scene(database, candidates=5, replicates=2, name="middle", epoch=first.epoch)
    names = [row.label.split()[0] for row in pending(database, window=6)]
    assert names[:12] == ["big", "small", "middle"] * 4
    assert Counter(names) == {"big": 6, "small": 4, "middle": 6}


def test_the_window_counts_what_is_under_way(database: Database) -> None:
    made = scene(database, candidates=5, replicates=2)
    assert mark(database, pending(database, window=4)) == 4
    assert pending(database, window=4) == []
    made.claim(0)
    assert pending(database, window=4) == []
    claim = made.claim(1)
    with database.statement() as conn:
        episodes.record_score(conn, claim, 1.0, "accepted", [])
    assert [row.episode_id for row in pending(database, window=4)] == [made.episodes[4]]


def test_messages_that_may_be_lost_are_sent_again_first(database: Database) -> None:
    made = scene(database, candidates=2, replicates=2)
    mark(database, pending(database, window=2))
    rows = pending(database, window=3, republish_seconds=-1)
    assert [row.episode_id for row in rows] == [made.episodes[0], made.episodes[1], made.episodes[2]]


def test_marking_disturbs_nothing_that_moved_on(database: Database) -> None:
    made = scene(database)
    rows = pending(database, window=4)
    running = made.claim(0)
    returned = made.claim(1)
    scored = made.claim(2)
    with database.statement() as conn:
        episodes.give_back(conn, returned)
        episodes.record_score(conn, scored, 1.0, "accepted", [])
    assert mark(database, rows) == 1
    assert [row.episode_id for row in pending(database, window=4)] == [made.episodes[1]]
    with database.statement() as conn:
        assert episodes.give_back(conn, running)


@pytest.mark.parametrize("change", [campaign_states.pause, campaign_states.cancel])
def test_nothing_of_a_stopped_campaign_is_sent(database: Database, change: object) -> None:
    made = scene(database)
    with database.transaction() as conn:
        assert callable(change)
        change(conn, made.campaign, "a test")
    assert pending(database, window=10) == []


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


def test_listing_campaigns(database: Database) -> None:
    first = scene(database, name="one")
    scene(database, name="two", epoch=first.epoch)
    with database.transaction() as conn:
        campaign_states.pause(conn, first.campaign, "x")
        assert [record.name for record in campaigns.list_all(conn)] == ["one", "two"]
        assert [record.name for record in campaigns.running(conn)] == ["two"]
        with pytest.raises(SpecError):
            campaigns.by_id(conn, type(first.campaign)(999))
