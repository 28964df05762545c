"""What about a broker's own settings would cost time or messages. Nothing here is needed for correctness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery import Celery

from services.queue.names import QUEUES

KEEPING = "noeviction"
# Celery's and kombu's own keys, beside the queues.
OURS = (*QUEUES, "_kombu.", "unacked", "celeryev", "celery.pidbox")
REPLIES = ".pidbox"
LOOKED_AT = 200
LATE = "and the episodes of those messages wait for TRINITY_REPUBLISH_SECONDS"


@dataclass(frozen=True)
class Advice:
    """What is so, what it costs, and what to do."""

    what: str
    cure: str


def advice(app: Celery) -> list[Advice]:
    """Return what to change at the broker; nothing for RabbitMQ, whose defaults suit."""
    with app.connection_for_read() as connection:
        if connection.transport.driver_type != "redis":
            return []
        client = connection.default_channel.client
        _, some = client.scan(count=LOOKED_AT)
        return redis_advice(client.info(), [key.decode(errors="replace") for key in some])


def redis_advice(info: Mapping[str, Any], keys: Sequence[str]) -> list[Advice]:
    """Judge the answer of Redis's INFO and some of its keys."""
    found = []
    policy = info.get("maxmemory_policy", KEEPING)
    if policy != KEEPING:
        what = f"a full Redis forgets messages without a word (maxmemory-policy {policy}), {LATE}"
        found.append(Advice(what, f"set Redis's maxmemory-policy to {KEEPING}"))
    if not info.get("aof_enabled", 1):
        what = f"a restart of Redis loses its messages (appendonly no), {LATE}"
        found.append(Advice(what, "set Redis's appendonly to yes"))
    databases = sorted(name for name in info if name.startswith("db") and name[2:].isdigit())
    strange = sorted(key for key in keys if not key.startswith(OURS) and not key.endswith(REPLIES))
    if len(databases) > 1 or strange:
        sign = f"the key {strange[0]!r}" if strange else f"keys in {', '.join(databases)}"
        what = f"others use this Redis too ({sign}): a full or flushed one stops both"
        found.append(Advice(what, "give the broker a Redis of its own"))
    return found
