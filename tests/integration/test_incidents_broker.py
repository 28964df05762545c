"""Incidents that others had with Celery and its brokers, done to this product; numbers are those of docs/incidents.md.

Each ends the same way: the campaign completes, nothing is counted twice, nothing is lost. TRINITY_TEST_FULL=1 runs the
long variants.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from services.core.campaign import SearchSpec
from services.core.ids import EpisodeId
from services.core.states import CampaignState, Purpose
from services.local.redis import EmbeddedRedis
from services.queue.app import make_app
from services.queue.names import EPISODES_QUEUE
from services.queue.publish import Delivery, Publisher
from services.storage import campaign_states
from services.storage.engine import Database
from tests.support.campaigns import submit
from tests.support.crew import Crew, Member
from tests.support.incidents import FULL, Stage, campaign, scheduling_quickly, slow
from tests.support.rabbitmq import RabbitServer
from tests.support.scheduling import record, wait_for_state
from tests.support.waiting import wait_for

WAITING = "broker unavailable, episodes wait"


@pytest.fixture
def stage(database: Database, database_url: str, tmp_path: Path) -> Callable[..., Any]:
    """Open a campaign with a scheduler on a broker; the scheduler can be left out."""

    @contextmanager
    def opened(broker_url: str, *, scheduler: bool = True, **changes: Any) -> Iterator[Stage]:
        campaign_id = submit(database, campaign(**changes))
        with Crew(tmp_path, database_url, broker_url) as crew:
            on = Stage(database, crew, broker_url, campaign_id)
            if not scheduler:
                yield on
                return
            with scheduling_quickly(database_url, broker_url):
                yield on

    return opened


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis that a test may spoil."""
    server = EmbeddedRedis(tmp_path / "redis")
    try:
        server.start()
        yield server
    finally:
        if pid := server.pid():
            os.kill(pid, signal.SIGCONT)
        server.stop()


def send_again(on: Stage) -> int:
    """Deliver a second message for every unfinished episode."""
    with on.database.transaction() as conn:
        rows = conn.exec_driver_sql("select id from episode where state <> 'scored' order by id").scalars()
        ids = [EpisodeId(row) for row in rows]
    publisher = Publisher(make_app(on.broker_url))
    publisher.send([Delivery(episode_id, Purpose.TRAINING, "again") for episode_id in ids])
    publisher.close()
    return len(ids)


def test_01_to_03_messages_that_come_again_start_no_second_attempt(stage: Any, broker_url: str) -> None:
    with stage(broker_url) as on:
        for _ in range(2):
            on.crew.worker("--slots", "1", "--latency-ms", "150", "--visibility-timeout", "1")
        on.until("episode where state = 'running'", 2)
        assert send_again(on) >= 10
        on.completes()
        assert on.ask("select max(attempt) from episode") == 1
        assert on.count("llm_call") == on.count("episode")


def test_05_06_48_messages_that_went_with_a_worker_or_nowhere_are_sent_again(stage: Any, broker_url: str) -> None:
    with stage(broker_url) as on:
        first = on.crew.worker("--slots", "2", "--latency-ms", "60000")
        on.until("llm_call where state = 'open'", 2)
        first.freeze()
        client = redis.Redis.from_url(broker_url)
        dropped = client.lpop(EPISODES_QUEUE, 3)
        assert isinstance(dropped, list)
        assert all(len(message) < 2000 for message in dropped), "54: a message carries one number, whatever it is about"
        send_again(on)
        first.kill()
        on.crew.members.remove(first)
        died = time.monotonic()
        on.crew.worker("--slots", "4")
        on.completes(lost=2)
        assert time.monotonic() - died < 90
        assert on.count("attempt where outcome = 'lost'") == 2
        assert on.count("llm_call where state = 'unknown'") == 2


def test_07_workers_that_stop_and_start_while_messages_come_lose_none(stage: Any, broker_url: str) -> None:
    population, rounds = (100, 8) if FULL else (8, 2)
    search = SearchSpec(population=population, replicates=5, generations=1, sigma0=0.1)
    with stage(broker_url, search=search) as on:
        for number in range(1, rounds + 1):
            worker: Member = on.crew.worker("--slots", "2", "--latency-ms", "50")
            on.until("episode where state = 'scored'", number * population // 2)
            assert worker.stop() == 0
            on.crew.members.remove(worker)
        on.crew.worker("--slots", "8")
        on.completes(seconds=150)
        assert on.ask("select max(attempt - attempt_floor) from episode") == 1, "a stop takes nobody's attempt"


def test_12_cut_connections_are_made_again(stage: Any, broker_url: str) -> None:
    client = redis.Redis.from_url(broker_url)
    with stage(broker_url) as on:
        worker = on.crew.worker("--slots", "1", "--latency-ms", "300")
        on.until("episode where state = 'running'", 1)
        for _ in range(30 if FULL else 4):
            client.client_kill_filter(_type="normal", skipme=True)
            client.client_kill_filter(_type="pubsub", skipme=True)
            time.sleep(1)
        on.completes()
        assert worker.starts == 1, worker.log


@contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    """19: Redis has no memory left and refuses."""
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


@contextmanager
def read_only(client: redis.Redis) -> Iterator[None]:
    """13: a failover left the address at a replica whose master is away."""
    client.replicaof("127.0.0.1", "1")
    yield
    client.replicaof("NO", "ONE")


@contextmanager
def crowded(client: redis.Redis) -> Iterator[None]:
    """55: no further client is let in."""
    client.config_set("maxclients", 1)
    client.client_kill_filter(_type="normal", skipme=True)
    yield
    client.config_set("maxclients", 1000)


@pytest.mark.parametrize("trouble", [full, pytest.param(read_only, marks=slow), pytest.param(crowded, marks=slow)])
def test_13_19_55_a_broker_that_refuses_costs_time_only(
    stage: Any, own_redis: EmbeddedRedis, capfd: pytest.CaptureFixture[str], trouble: Any
) -> None:
    client = redis.Redis.from_url(own_redis.start())
    with stage(own_redis.start()) as on:
        worker = on.crew.worker("--slots", "2", "--latency-ms", "200")
        on.until("episode where state = 'scored'", 1)
        heard = ""
        with trouble(client):
            send = time.monotonic() + (20 if FULL else 2)
            while time.monotonic() < send or WAITING not in heard:
                assert time.monotonic() < send + 60, "the scheduler never said why nothing moves"
                with on.database.transaction() as conn:
                    conn.exec_driver_sql(
                        "update episode set published_at = null, state = 'pending' where state = 'queued'"
                    )
                time.sleep(0.5)
                heard += "".join(capfd.readouterr())
        on.completes(seconds=150)
        assert worker.starts <= 2, worker.log


@slow
def test_17_a_frozen_broker_holds_up_nothing_but_messages(
    stage: Any, own_redis: EmbeddedRedis, database: Database
) -> None:
    pid = own_redis.pid()
    assert pid is not None
    with stage(own_redis.start()) as on:
        on.crew.worker("--slots", "2", "--latency-ms", "200")
        on.until("episode where state = 'scored'", 1)
        os.kill(pid, signal.SIGSTOP)
        other = submit(database, campaign(name="other"))
        wait_for_state(database, other, CampaignState.RUNNING)
        oldest = 0.0
        until = time.monotonic() + (60 if FULL else 8)
        while time.monotonic() < until:
            oldest = max(oldest, float(on.ask("select extract(epoch from clock_timestamp() - beat_at) from leader")))
            time.sleep(0.2)
        with database.transaction() as conn:
            campaign_states.cancel(conn, other, "it takes too long")
        assert record(database, other).state is CampaignState.CANCELLED
        os.kill(pid, signal.SIGCONT)
        wait_for_state(database, on.campaign_id, CampaignState.COMPLETED)
        assert on.ask("select epoch from leader") == 1, "nobody took a healthy leader for a dead one"
        assert oldest < 8


NOT_OURS = {
    "garbage": b"not json at all",
    "half a message": b'{"body": "W10=", "headers": {"task": "trin',
    "another task": "os.system",
    "wrong arguments": {"version": 1, "episode_id": "seven"},
    "nothing": {},
    "pickle": pickle.dumps(([], {"version": 1, "episode_id": 1}, {})),
}


def forged(client: redis.Redis, content: Any) -> bytes:
    """Return a real message of ours with another task, other arguments or another kind of body."""
    if isinstance(content, bytes) and not content.startswith(b"\x80"):
        return content
    real = client.lindex(EPISODES_QUEUE, 0)
    assert isinstance(real, bytes)
    message = json.loads(real)
    if isinstance(content, str):
        message["headers"]["task"] = content
    elif isinstance(content, dict):
        message["body"] = base64.b64encode(json.dumps([[], content, {}]).encode()).decode()
    else:
        message["body"] = base64.b64encode(content).decode()
        message["content-type"] = "application/x-python-serialize"
        message["content-encoding"] = "binary"
    return json.dumps(message).encode()


@slow
def test_18_messages_that_are_not_ours_stop_a_worker_once_at_most(stage: Any, own_redis: EmbeddedRedis) -> None:
    client = redis.Redis.from_url(own_redis.start())
    with stage(own_redis.start()) as on:
        wait_for(lambda: client.llen(EPISODES_QUEUE) >= 12, seconds=90, what="the messages of generation 0")
        for content in NOT_OURS.values():
            client.rpush(EPISODES_QUEUE, forged(client, content))
        worker = on.crew.worker("--slots", "2", "--latency-ms", "20")
        on.completes(seconds=150, lost=4)
        assert "carries episode_id 'seven', wanted a positive whole number" in worker.log
        assert "a message of version None arrived" in worker.log
        assert "os.system" in worker.log, "an unknown task is named"
        assert worker.starts <= 1 + len(NOT_OURS)


def test_20_a_broker_that_forgets_costs_time_only(stage: Any, own_redis: EmbeddedRedis) -> None:
    client = redis.Redis.from_url(own_redis.start())
    client.config_set("maxmemory-policy", "allkeys-lru")
    with stage(own_redis.start()) as on:
        wait_for(lambda: client.llen(EPISODES_QUEUE) >= 12, seconds=90, what="the messages of generation 0")
        client.config_set("maxmemory", 1)  # every key is forgotten, the queue with them
        assert client.llen(EPISODES_QUEUE) == 0
        client.config_set("maxmemory", 0)
        on.crew.worker("--slots", "4")
        on.completes()


@slow
def test_21_22_killed_workers_and_callers_leave_next_to_nothing(stage: Any, own_redis: EmbeddedRedis) -> None:
    client = redis.Redis.from_url(own_redis.start())
    app = make_app(own_redis.start())
    with stage(own_redis.start(), scheduler=False) as on:
        for _ in range(50 if FULL else 2):
            worker = on.crew.worker("--slots", "1")
            wait_for(app.control.ping, seconds=90, what="the worker to answer")
            for _ in range(5):
                app.control.broadcast("ping", reply=False)
            worker.kill()
        keys = [key.decode() for key in client.scan_iter()]
        assert not [key for key in keys if "celeryev" in key and "binding" not in key], keys
        assert sum(int(client.memory_usage(key) or 0) for key in keys) < 1_000_000
    app.close()


def test_15_a_killed_rabbitmq_costs_time_only(stage: Any, rabbitmq: RabbitServer) -> None:
    with stage(rabbitmq.url) as on:
        worker = on.crew.worker("--slots", "5", "--latency-ms", "1000")
        on.until("episode where state = 'running'", 5)
        rabbitmq.kill()
        rabbitmq.start()
        on.completes(seconds=150)
        assert on.ask("select max(attempt) from episode") == 1
        assert worker.starts == 1, worker.log
