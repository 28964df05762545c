"""Two statements that belong together, on a connection that commits each statement by itself."""

from __future__ import annotations

from contextlib import AbstractContextManager

import psycopg
from sqlalchemy import Connection


def atomic(conn: Connection) -> AbstractContextManager[object]:
    """Return a block that is a transaction on a connection in autocommit, and a savepoint within a transaction.

    For the pattern "lock, then write": one statement that locks a row and then updates an older version of it
    deadlocks with whoever queues for the row in between, so that locking has to be a statement of its own.
    """
    driver = conn.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.transaction() if driver.autocommit else conn.begin_nested()
