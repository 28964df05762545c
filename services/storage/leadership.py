"""Who schedules. An advisory lock finds one leader quickly; the epoch, re-read by every write, keeps it safe.

The lock alone is not enough: a leader that was suspended may wake up and write after its connection is gone. Each
leader therefore takes a new epoch, and a transaction that finds a newer one commits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import psycopg
from sqlalchemy import Connection, text

from services.core.errors import LeadershipLost

LEADER_LOCK = 0x7472_696E_6974_7901  # any number that nobody else uses in this database
TAKE_OFFICE = text("update leader set epoch = epoch + 1 where id = 1 returning epoch")
CURRENT_EPOCH = text("select epoch from leader where id = 1 for share")


class LeaderLock:
    """The advisory lock on one connection that is never pooled: it is held exactly as long as that connection lives.

    Use it as a context manager, so that leaving by any exception lets the next leader in at once.
    """

    def __init__(self, url: str, arguments: Mapping[str, Any]) -> None:
        self._url = url
        self._arguments = arguments
        self._connection: psycopg.Connection[Any] | None = None

    def try_acquire(self) -> bool:
        """Return whether this process leads now; False while another does or the database is away."""
        if self.held():
            return True
        connection: psycopg.Connection[Any] | None = None
        try:
            connection = psycopg.connect(self._url, autocommit=True, **self._arguments)
            row = connection.execute("select pg_try_advisory_lock(%s)", (LEADER_LOCK,)).fetchone()
            if row is not None and row[0]:
                self._connection, connection = connection, None
                return True
            return False
        except psycopg.OperationalError:
            return False
        finally:
            if connection is not None:
                connection.close()

    def held(self) -> bool:
        """Ask the database whether the lock's connection still lives; a lost lock has to be acquired again."""
        if self._connection is None:
            return False
        try:
            self._connection.execute("select 1")
        except psycopg.Error:
            self.close()
            return False
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def take_office(conn: Connection) -> int:
    """Begin a new epoch and return it. From here on, transactions of earlier leaders fail."""
    return int(conn.execute(TAKE_OFFICE).scalar_one())


def require(conn: Connection, epoch: int) -> None:
    """Hold the epoch until this transaction ends. Call it first: the leader row stands first in the lock order.

    Raises:
        LeadershipLost: another scheduler took office.
    """
    current = int(conn.execute(CURRENT_EPOCH).scalar_one())
    if current != epoch:
        raise LeadershipLost(epoch, current)
