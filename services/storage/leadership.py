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
# A leader shows a sign of life every second. One that has been silent for so long is frozen: its machine sleeps, or a
# debugger holds it. Longer than anything that it does between two signs.
TAKEOVER_SECONDS = 10.0

# For update, which waits for the transactions of earlier leaders: they hold the row for key share. Signs of life, which
# change no key, go past those. Locking is a statement of its own, see ``nesting``.
LOCK_OFFICE = text("select id from leader where id = 1 for update")
TAKE_OFFICE = text("""
update leader set epoch = epoch + 1, beat_at = clock_timestamp(), holder = :holder where id = 1 returning epoch
""")
CURRENT_EPOCH = text("select epoch from leader where id = 1 for key share")
BEAT = text("update leader set beat_at = clock_timestamp() where id = 1 and epoch = :epoch returning id")

# The lock's session, and those with a transaction that read the epoch to hold it: the next leader would wait for them.
END_FROZEN = text("""
with frozen as materialized (
    select id from leader where id = 1 and beat_at < clock_timestamp() - make_interval(secs => :silence)
), sessions as materialized (
    select distinct l.pid
    from frozen cross join pg_locks l
    where l.granted and l.pid <> pg_backend_pid()
        and l.database = (select oid from pg_database where datname = current_database())
        and ((l.locktype = 'advisory' and l.classid = cast(:high as oid) and l.objid = cast(:low as oid))
            or (l.locktype = 'relation' and l.relation = cast('leader' as regclass) and l.mode = 'RowShareLock'))
)
select pid from sessions where pg_terminate_backend(pid, 2000)
""")


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


def take_office(conn: Connection, holder: str = "") -> int:
    """Begin a new epoch and return it. From here on, transactions of earlier leaders fail.

    Args:
        conn: an open transaction.
        holder: who leads, for people.
    """
    conn.execute(LOCK_OFFICE)
    return int(conn.execute(TAKE_OFFICE, {"holder": holder or None}).scalar_one())


def require(conn: Connection, epoch: int) -> None:
    """Hold the epoch until this transaction ends. Call it first: the leader row stands first in the lock order.

    Raises:
        LeadershipLost: another scheduler took office.
    """
    current = int(conn.execute(CURRENT_EPOCH).scalar_one())
    if current != epoch:
        raise LeadershipLost(epoch, current)


def beat(conn: Connection, epoch: int) -> None:
    """Show that the leader lives.

    Raises:
        LeadershipLost: another scheduler took office.
    """
    if conn.execute(BEAT, {"epoch": epoch}).scalar_one_or_none() is None:
        require(conn, epoch)


def end_frozen(conn: Connection, silence_seconds: float = TAKEOVER_SECONDS) -> int:
    """End the sessions of a leader that shows no sign of life and return how many; the lock is free then.

    The frozen process finds out when it wakes up: its connections are gone and its epoch is over.
    """
    keys = {"high": LEADER_LOCK >> 32, "low": LEADER_LOCK & 0xFFFF_FFFF}
    return len(conn.execute(END_FROZEN, {**keys, "silence": silence_seconds}).all())
