"""What every command connects to: settings, the database, the broker. Built here and passed down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.local import endpoints

if TYPE_CHECKING:
    from services.queue.advice import Advice
    from services.storage.engine import Database

__all__ = [
    "Settings",
    "broker_advice",
    "broker_url",
    "database_url",
    "load_settings",
    "open_database",
    "open_queues",
    "variables",
]


def variables(settings: Settings) -> Mapping[str, str]:
    """Return what ``${NAME}`` may stand for in campaign and pool files."""
    return settings.path_variables(os.environ)


def database_url(settings: Settings) -> str:
    return endpoints.database_url(settings.database_url, settings.var_dir)


def broker_url(settings: Settings) -> str:
    return endpoints.broker_url(settings.broker_url, settings.var_dir)


@contextmanager
def open_database(settings: Settings, *, schema: bool = True) -> Iterator[Database]:
    """Yield a database that answers and, unless ``schema`` is off, has the schema of this code."""
    from services.storage import schema as versions
    from services.storage.engine import Database

    database = Database(database_url(settings), application_name="trinity-cli", pool_size=1)
    try:
        if schema:
            with database.transaction() as conn:
                versions.check(conn)
        yield database
    finally:
        database.close()


@contextmanager
def open_queues(settings: Settings) -> Iterator[Callable[[], Mapping[str, int]]]:
    """Yield a function that returns how many messages wait in each queue, once the broker has answered.

    The function returns nothing while the broker is away: people can do without these figures for a while.
    """
    from services.queue.app import make_app
    from services.queue.publish import broker_errors, queue_lengths, require_broker

    app = make_app(broker_url(settings))
    failures: tuple[type[Exception], ...] = (TrinityError, *broker_errors(app))

    def lengths() -> Mapping[str, int]:
        try:
            return queue_lengths(app)
        except failures:
            return {}

    try:
        require_broker(app)
        yield lengths
    finally:
        app.close()


def broker_advice(settings: Settings) -> list[Advice]:
    """Return what to change at the broker; raises PrerequisiteMissing while it does not answer."""
    from services.queue.advice import advice
    from services.queue.app import make_app
    from services.queue.publish import require_broker

    app = make_app(broker_url(settings))
    try:
        require_broker(app)
        return advice(app)
    finally:
        app.close()
