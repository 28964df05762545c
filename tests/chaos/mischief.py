"""Faults that need no signal: what a broker, a database and a network can do to the product."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import kombu.exceptions
import psycopg
import redis

from services.core.errors import TrinityError
from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.app import make_app
from services.queue.names import EPISODE_TASK, QUEUES
from services.queue.publish import Delivery, Publisher
from tests.chaos.system import Server, System

FAILURES = (OSError, TrinityError, psycopg.Error, redis.RedisError, kombu.exceptions.KombuError)

# All that a message may be wrong in: version, number, arguments, task.
GARBAGE: tuple[tuple[str, dict[str, object]], ...] = (
    (EPISODE_TASK, {"version": 99, "episode_id": 1}),
    (EPISODE_TASK, {"version": 1, "episode_id": -5}),
    (EPISODE_TASK, {"version": 1, "episode_id": "seven"}),
    (EPISODE_TASK, {"version": 1, "episode_id": 10**15}),
    (EPISODE_TASK, {"nonsense": [1, 2, 3]}),
    ("trinity.episode.unheard_of", {"version": 1, "episode_id": 1}),
)


def client(system: System) -> redis.Redis:
    return redis.Redis.from_url(str(system.redis.url), socket_timeout=2.0, socket_connect_timeout=2.0)


def limit_redis(system: System, *, full: bool) -> None:
    """Let Redis refuse every write for lack of memory, or take writes again."""
    with client(system) as connection:
        connection.config_set("maxmemory", "1" if full else "0")


def processes(server: Server) -> list[int]:
    """Return a server's main process and its children."""
    pid = server.service.pid()
    return [] if pid is None else [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def flush(system: System, rng: random.Random) -> str:
    with client(system) as connection:
        connection.flushall()
    return "redis"


def drop_clients(system: System, rng: random.Random) -> str:
    with client(system) as connection:
        killed = sum(int(connection.execute_command("CLIENT", "KILL", "TYPE", kind)) for kind in ("normal", "pubsub"))
    return f"{killed} connections"


def end_sessions(system: System, rng: random.Random) -> str:
    """Terminate a random half of the product's database sessions."""
    with psycopg.connect(str(system.postgres.url), autocommit=True, connect_timeout=2) as connection:
        rows = connection.execute(
            "select pid, application_name from pg_stat_activity where application_name like 'trinity%' order by pid"
        ).fetchall()
        chosen = [row for row in rows if rng.random() < 0.5]
        for pid, _ in chosen:
            connection.execute("select pg_terminate_backend(%s)", (pid,))
    return f"{len(chosen)} of {len(rows)} sessions"


def publish_twice(system: System, rng: random.Random) -> str:
    """Send messages of episodes in any state, each twice, in random order."""
    with psycopg.connect(str(system.postgres.url), autocommit=True, connect_timeout=2) as connection:
        rows = connection.execute("select id, purpose from episode order by id desc limit 300").fetchall()
    chosen = rng.sample(rows, min(30, len(rows))) * 2
    rng.shuffle(chosen)
    _send(system, [Delivery(EpisodeId(number), Purpose(purpose), "chaos") for number, purpose in chosen])
    return f"{len(chosen)} messages"


def _send(system: System, deliveries: list[Delivery]) -> None:
    publisher = Publisher(make_app(str(system.redis.url)))
    try:
        publisher.send(deliveries)
    finally:
        publisher.close()


def publish_garbage(system: System, rng: random.Random) -> str:
    """Send messages that no worker of this version can act on, and two that are no JSON at all."""
    app = make_app(str(system.redis.url))
    try:
        with app.producer_or_acquire() as producer:
            for task, kwargs in GARBAGE:
                app.send_task(task, kwargs=kwargs, queue=rng.choice(QUEUES), producer=producer, retry=False)
            for body in ("{", "\x00\xff"):
                producer.publish(
                    body,
                    routing_key=rng.choice(QUEUES),
                    content_type="application/json",
                    content_encoding="utf-8",
                    headers={"task": EPISODE_TASK, "id": "chaos"},
                    retry=False,
                )
    finally:
        app.close()
    return f"{len(GARBAGE) + 2} messages"


DEEDS: Mapping[str, Callable[[System, random.Random], str]] = {
    "flush redis": flush,
    "drop redis clients": drop_clients,
    "end database sessions": end_sessions,
    "publish twice, shuffled": publish_twice,
    "publish garbage": publish_garbage,
}
