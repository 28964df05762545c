"""LISTEN on a connection of its own. A notification is a hint to look; the caller's polling is the guarantee."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

CHANNEL = "trinity"
RECONNECT_SECONDS = 1.0


class Listener:
    """Waits for notifications on one channel, through restarts of the database.

    Args:
        url: libpq address.
        arguments: further driver arguments.
        channel: the channel's name.
    """

    def __init__(self, url: str, arguments: Mapping[str, Any], channel: str) -> None:
        self._url = url
        self._arguments = arguments
        self._channel = channel
        self._connection: psycopg.Connection[Any] | None = None

    def wait(self, timeout_seconds: float) -> bool:
        """Return True as soon as the database should be looked at, False when nothing came within the time.

        True means a notification (all waiting ones are drained) or a new connection, before which some may have been
        missed. While the database is away this takes its time and returns False: it never raises for that.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            if self._connection is None:
                self._connection = self._connect()
                return True
            return self._drain(self._connection, timeout_seconds)
        except psycopg.Error:
            self.close()
            time.sleep(min(RECONNECT_SECONDS, max(0.0, deadline - time.monotonic())))
            return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._url, autocommit=True, **self._arguments)
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except psycopg.Error:
            connection.close()
            raise
        return connection

    @staticmethod
    def _drain(connection: psycopg.Connection[Any], timeout_seconds: float) -> bool:
        heard = any(True for _ in connection.notifies(timeout=timeout_seconds, stop_after=1))
        if heard:
            for _ in connection.notifies(timeout=0):
                pass
        return heard
