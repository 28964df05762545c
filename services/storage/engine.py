"""The way to the database: pooled transactions, one-statement connections, and two dedicated connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from services.core.errors import DatabaseUnavailable, SpecError
from services.storage.leadership import LeaderLock
from services.storage.listening import CHANNEL, Listener

__all__ = ["CHANNEL", "Connection", "Database", "parse_url"]

CURE = "start one with `manage.py up`, or set TRINITY_DATABASE_URL to one that runs"

# lock not available, statement cancelled by its timeout, deadlock, serialisation failure
BUSY = frozenset({"55P03", "57014", "40P01", "40001"})
BUSY_CURE = "another process holds it; try again"

# A statement of ours takes milliseconds; whatever takes longer than these is stuck and must let go of its locks.
SESSION = {
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "timezone": "UTC",
    "jit": "off",
}


def parse_url(url: str) -> URL:
    """Return the address for SQLAlchemy's psycopg driver.

    Raises:
        SpecError: it is not a Postgres URL. The message never repeats the URL, which may hold a password.
    """
    wanted = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SpecError("database URL", "something that is no URL", wanted) from None
    if parsed.drivername not in {"postgres", "postgresql", "postgresql+psycopg"}:
        raise SpecError("database URL", f"{parsed.drivername}://...", wanted)
    return parsed.set(drivername="postgresql+psycopg")


def connect_arguments(application_name: str) -> dict[str, Any]:
    """Return the driver arguments of every connection: session limits, and keepalives that notice a dead peer."""
    return {
        "application_name": application_name,
        "options": " ".join(f"-c {name}={value}" for name, value in SESSION.items()),
        "connect_timeout": 5,
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 5,
    }


class Database:
    """A pool of connections. Create it in the process that uses it (never before a fork); all threads share it.

    Nothing is opened before the first use. More threads than connections is normal: they wait their turn.

    Args:
        url: ``postgresql://``, ``postgres://`` or ``postgresql+psycopg://``.
        application_name: shown by ``pg_stat_activity``.
        pool_size: most pooled connections; ``listen`` and ``leadership`` open one more each.
        ping: ask a connection whether it lives before using it. Users that repeat what fails can do without.
    """

    def __init__(self, url: str, *, application_name: str, pool_size: int = 4, ping: bool = True) -> None:
        self._url = parse_url(url)
        self._arguments = connect_arguments(application_name)
        self._engine = create_engine(
            self._url,
            connect_args=self._arguments,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=30,
            pool_pre_ping=ping,
        )
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection whose work commits at the end of the block and is undone by an exception.

        Raises:
            DatabaseUnavailable: no connection, a lost one, a lock that was not granted, or a deadlock.
        """
        with self._translated(), self._engine.begin() as conn:
            yield conn

    @contextmanager
    def statement(self) -> Iterator[Connection]:
        """Yield a connection on which every statement commits by itself: one hot statement, one round trip.

        Raises:
            DatabaseUnavailable: as for ``transaction``.
        """
        with self._translated(), self._autocommit.connect() as conn:
            yield conn

    def listen(self, channel: str = CHANNEL) -> Listener:
        """Return a listener with a connection of its own, opened by its first wait."""
        return Listener(self._libpq_url(), self._arguments, channel)

    def leadership(self) -> LeaderLock:
        """Return the scheduler's advisory lock, not yet tried, with a connection of its own."""
        return LeaderLock(self._libpq_url(), self._arguments)

    def close(self) -> None:
        """Close the pooled connections. Ones in use close when they are given back."""
        self._engine.dispose()

    def _libpq_url(self) -> str:
        return self._url.set(drivername="postgresql").render_as_string(hide_password=False)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout:
            raise DatabaseUnavailable("no database connection became free within 30 s", "try again") from None
        except DBAPIError as error:
            if not (isinstance(error, OperationalError) or error.connection_invalidated):
                raise
            raise unavailable(self._url, error.orig) from error
        except psycopg.OperationalError as error:
            # Begin and end of ``nesting.atomic`` are the driver's own and do not pass through SQLAlchemy.
            raise unavailable(self._url, error) from error


def unavailable(url: URL, error: BaseException | None) -> DatabaseUnavailable:
    """Return what to raise for a driver error: the database is away, or only somebody else's lock is in the way."""
    cure = BUSY_CURE if getattr(error, "sqlstate", None) in BUSY else CURE
    return DatabaseUnavailable(f"the database at {place(url)} failed: {reason(error)}", cure)


def place(url: URL) -> str:
    """Return host, port and database for people; never the password."""
    host = url.host or url.query.get("host") or "the default socket"
    return f"{host}:{url.port or 5432}/{url.database or ''}"


def reason(error: BaseException | None) -> str:
    """Return the first line of what the driver said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
