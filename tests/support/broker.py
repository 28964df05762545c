"""A broker for the test session, empty at the start of every test that asks for it: a private Redis, or RabbitMQ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.local.redis import EmbeddedRedis
from services.queue.app import make_app

on_every_broker = pytest.mark.parametrize(
    "broker_url", ["broker_server", "amqp_server"], ids=["redis", "rabbitmq"], indirect=True
)


@pytest.fixture(scope="session")
def broker_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of TRINITY_TEST_BROKER_URL, or of a server started for this session."""
    if given := os.environ.get("TRINITY_TEST_BROKER_URL"):
        yield given
        return
    home: Path = tmp_path_factory.mktemp("redis")
    with EmbeddedRedis(home) as url:
        yield url


@pytest.fixture
def broker_url(request: pytest.FixtureRequest) -> str:
    """A broker with empty queues: Redis, or what ``on_every_broker`` asks for."""
    server: str = request.getfixturevalue(getattr(request, "param", "broker_server"))
    app = make_app(server)
    with app.connection_for_write() as connection, connection.channel() as channel:
        for queue in app.conf.task_queues:
            bound = queue(channel)
            bound.declare()
            bound.purge()
    app.close()
    return server
