from __future__ import annotations

from typing import Any

import pytest

from services.queue.advice import redis_advice

GOOD = {"maxmemory_policy": "noeviction", "aof_enabled": 1, "db0": {"keys": 3}}
KEYS = ["episodes", "validation", "_kombu.binding.episodes", "unacked_index", "0b1c.reply.celery.pidbox", "celeryev.1"]


def test_our_own_redis_needs_no_advice() -> None:
    assert redis_advice(GOOD, KEYS) == []


def test_a_server_that_does_not_say_is_not_suspected() -> None:
    assert redis_advice({}, []) == []


@pytest.mark.parametrize(
    ("change", "keys", "what", "cure"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, [], "allkeys-lru", "noeviction"),
        ({"aof_enabled": 0}, [], "a restart of Redis loses its messages", "appendonly to yes"),
        ({"db3": {"keys": 1}}, [], "keys in db0, db3", "a Redis of its own"),
        ({}, ["cache:1"], "'cache:1'", "a Redis of its own"),
    ],
)
def test_what_costs_messages_is_said_with_its_cure(
    change: dict[str, Any], keys: list[str], what: str, cure: str
) -> None:
    (found,) = redis_advice(GOOD | change, KEYS + keys)
    assert what in found.what
    assert cure in found.cure
