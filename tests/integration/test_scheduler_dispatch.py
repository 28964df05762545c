"""What reaches the broker, when, and in which order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from scheduler.dispatch import Round, dispatch
from services.core.campaign import EvaluationSpec, SearchSpec, ValidationSpec
from services.core.errors import LeadershipLost
from services.core.ids import CampaignId, EpisodeId
from services.core.scoring.grade import graded
from services.core.states import CampaignState
from services.local.redis import EmbeddedRedis
from services.queue.app import make_app
from services.queue.messages import EpisodeMessage
from services.queue.publish import BrokerUnavailable, Publisher, queue_lengths
from services.storage import campaign_states, campaigns, episodes, leadership
from services.storage.engine import Database
from tests.support.campaigns import small_campaign, submit
from tests.support.player import Player
from tests.support.scheduling import record, scheduling, wait_for_state
from tests.support.storage import Scene, query, scene
from tests.support.waiting import wait_for


@contextmanager
def publishing(broker_url: str) -> Iterator[tuple[Celery, Publisher]]:
    app = make_app(broker_url)
    publisher = Publisher(app)
    try:
        yield app, publisher
    finally:
        publisher.close()


def send(made: Scene, publisher: Publisher, window: int = 64, republish_seconds: float = 60.0) -> Round:
    return dispatch(made.database, publisher, made.epoch, window=window, republish_seconds=republish_seconds)


def messages(app: Celery, queue: str) -> Iterator[Any]:
    """Take all messages of a queue from the broker."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            yield message


def received(app: Celery, queue: str = "episodes") -> list[EpisodeId]:
    """Take all messages of a queue from the broker and return their episodes in order."""
    return [EpisodeMessage.from_kwargs(message.payload[1]).episode_id for message in messages(app, queue)]


def states(made: Scene) -> list[str]:
    with made.database.transaction() as conn:
        return [
            row[0] for row in query(conn, f"select state from episode where campaign_id = {made.campaign} order by id")
        ]


def test_a_window_is_sent_once(database: Database, broker_url: str) -> None:
    made = scene(database, candidates=5, replicates=2)
    with publishing(broker_url) as (app, publisher):
        assert send(made, publisher, window=4) == Round(sent=4, before=0, after=4, queued=4, backlog=True)
        assert send(made, publisher, window=4) == Round(sent=0, before=4, after=4, queued=4, backlog=True)
        assert received(app) == list(made.episodes[:4])
        assert send(made, publisher, window=99) == Round(sent=6, before=4, after=10, queued=10, backlog=False)


def test_a_message_is_one_that_celery_would_have_sent(broker_url: str, database: Database) -> None:
    made = scene(database, candidates=1, replicates=1, name="named")
    with publishing(broker_url) as (app, publisher):
        send(made, publisher)
        (message,) = messages(app, "episodes")
        app.send_task(
            "trinity.episode.run", kwargs={"version": 1, "episode_id": made.episodes[0]}, kwargsrepr="named g0 c0 r0"
        )
        (wanted,) = messages(app, "episodes")
    differing = {"id", "root_id", "origin"}
    assert set(message.headers) == set(wanted.headers)
    for name in set(wanted.headers) - differing:
        assert message.headers[name] == wanted.headers[name], name
    assert message.payload == wanted.payload
    assert message.properties["correlation_id"] == message.headers["id"] == message.headers["root_id"]
    for name in ("delivery_mode", "priority"):
        assert message.properties.get(name) == wanted.properties.get(name)
    assert (message.content_type, message.content_encoding) == (wanted.content_type, wanted.content_encoding)


def test_a_deposed_leader_sends_nothing(database: Database, broker_url: str) -> None:
    made = scene(database)
    with database.transaction() as conn:
        leadership.take_office(conn)
    with publishing(broker_url) as (app, publisher):
        with pytest.raises(LeadershipLost):
            send(made, publisher)
        assert received(app) == []
    assert states(made) == ["pending"] * 4


def test_what_the_broker_does_not_take_is_due_at_once(database: Database) -> None:
    made = scene(database)
    with publishing("redis://127.0.0.1:1/0") as (_, publisher), pytest.raises(BrokerUnavailable):
        send(made, publisher)
    assert states(made) == ["pending"] * 4


def test_a_frozen_broker_is_given_up_after_seconds(database: Database, tmp_path: Path) -> None:
    made = scene(database)
    server = EmbeddedRedis(tmp_path / "redis")
    with server as url, publishing(url) as (app, publisher):
        assert send(made, publisher, window=1).sent == 1
        pid = server.pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        try:
            for _ in range(2):
                with pytest.raises(BrokerUnavailable):
                    send(made, publisher)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - started < 10
        assert states(made) == ["queued", "pending", "pending", "pending"]
        assert wait_for(lambda: send(made, publisher).sent, seconds=10, what="the broker to take messages") == 3
        assert set(made.episodes) <= set(received(app))


def test_a_late_small_campaign_starts_within_a_window_behind_a_large_one(database: Database, broker_url: str) -> None:
    big = scene(database, candidates=100, replicates=50, name="big")
    with publishing(broker_url) as (app, publisher):
        assert send(big, publisher).sent == 64
        small = scene(database, candidates=2, replicates=2, name="small", epoch=big.epoch)
        assert send(big, publisher).sent == 4
        arrived = received(app)
        assert len(arrived) == 68
        assert set(arrived[64:]) == set(small.episodes)


def test_campaigns_share_the_window_by_weight_and_fill_each_others_tails(database: Database, broker_url: str) -> None:
    heavy = scene(database, candidates=20, replicates=5, name="heavy")
    light = scene(database, candidates=20, replicates=5, name="light", epoch=heavy.epoch)
    tail = scene(database, candidates=1, replicates=3, name="tail", epoch=heavy.epoch)
    with database.transaction() as conn:
        campaigns.set_weight(conn, heavy.campaign, 3.0)
    owners = {each: made.campaign for made in (heavy, light, tail) for each in made.episodes}
    with publishing(broker_url) as (app, publisher):
        send(heavy, publisher, window=43)
        order = [owners[each] for each in received(app)]
        assert [order.count(made.campaign) for made in (heavy, light, tail)] == [30, 10, 3]
        longest = max(len(run) for run in "".join("h" if each == heavy.campaign else " " for each in order).split())
        assert longest <= 4
        for made in (light, tail):
            with database.transaction() as conn:
                campaign_states.cancel(conn, made.campaign, "a test")
        assert send(heavy, publisher, window=43).sent == 13, "what the others leave free"


def test_a_new_leader_sends_again_what_may_never_have_been_sent(
    database: Database, database_url: str, broker_url: str
) -> None:
    made = scene(database)
    with database.transaction() as conn:
        query(conn, "update episode set state = 'queued', published_at = now()")
    with publishing(broker_url) as (app, _), scheduling(database_url, broker_url):
        wait_for(lambda: queue_lengths(app)["episodes"] == 4, seconds=10, what="4 messages")
        assert received(app) == list(made.episodes)


def test_messages_dropped_during_a_pause_are_sent_again_at_once(
    database: Database, database_url: str, broker_url: str
) -> None:
    with publishing(broker_url) as (app, _), scheduling(database_url, broker_url):
        campaign_id = submit(database, small_campaign())
        wait_for(lambda: sum(queue_lengths(app).values()) == 14, seconds=10, what="14 messages")
        for change in (partial(campaign_states.pause, reason="a test"), campaign_states.resume):
            received(app), received(app, "validation")
            with database.transaction() as conn:
                change(conn, campaign_id)
        wait_for(lambda: sum(queue_lengths(app).values()) == 14, seconds=10, what="14 messages again")


def test_a_frozen_broker_stops_neither_beats_nor_cancelling(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    with server as url, scheduling(database_url, url):
        cancelled, running = (submit(database, small_campaign(name=name)) for name in ("cancelled", "running"))
        wait_for_state(database, running, CampaignState.RUNNING)
        pid = server.pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            with database.transaction() as conn:
                query(conn, "update episode set state = 'pending'")
            oldest = longest_silence(database, seconds=8)
            with database.transaction() as conn:
                campaign_states.cancel(conn, cancelled, "a test")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert oldest < 0.8 * leadership.TAKEOVER_SECONDS
        with Player(database):
            wait_for_state(database, running, CampaignState.COMPLETED)
        assert record(database, cancelled).state is CampaignState.CANCELLED


def longest_silence(database: Database, seconds: float) -> float:
    """Return the oldest sign of life that was ever the newest within some seconds."""
    oldest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        with database.transaction() as conn:
            ((age,),) = query(conn, "select extract(epoch from clock_timestamp() - beat_at) from leader")
        oldest = max(oldest, float(age))
        threading.Event().wait(0.1)
    return oldest


def test_fast_episodes_are_dispatched_as_fast_as_they_end(
    database: Database, database_url: str, broker_url: str
) -> None:
    """A worker of no work at all uses up a dozen windows in less than two polls."""
    search = SearchSpec(population=10, replicates=20, generations=1, sigma0=0.1)
    campaign_id = submit(
        database, small_campaign(search=search, validation=ValidationSpec(1, 0), evaluation=EvaluationSpec(0))
    )
    with publishing(broker_url) as (app, _), scheduling(database_url, broker_url, poll_seconds=10.0, window=16):
        wait_for(partial(consumed, app, database, campaign_id), seconds=19, what="200 scored episodes", pause=0.001)


def consumed(app: Celery, database: Database, campaign_id: CampaignId) -> bool:
    """Score whatever has arrived; return whether the campaign is complete."""
    for number in received(app):
        with database.statement() as conn:
            claim = episodes.claim(conn, number, f"w#{number}", 60)
            if claim is not None:
                episodes.record_score(conn, claim, graded(0.5), "accepted", [])
    return record(database, campaign_id).state is CampaignState.COMPLETED
