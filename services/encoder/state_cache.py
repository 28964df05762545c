"""States already computed: the newest in memory, and all of them in one file that the workers of a machine share.

A state depends on its key alone (same weights, tokens, position, arithmetic), so an entry never becomes stale. The
file may be deleted at any time, and a file that fails costs time, never a result.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.float32]

_LOG = logging.getLogger(__name__)
_BUSY_SECONDS = 1.0
_TRIM_EVERY = 1000


@dataclass(frozen=True)
class CacheCounts:
    """``hits`` from memory, ``file_hits`` from the shared file, ``misses`` in neither."""

    hits: int = 0
    file_hits: int = 0
    misses: int = 0


class StateFile:
    """States in a SQLite file, shared by processes. After its first failure it is left alone for good."""

    def __init__(self, path: Path, max_rows: int = 200_000) -> None:
        self._path = path
        self._max_rows = max_rows
        self._lock = threading.Lock()
        self._written = 0
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._open()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def get(self, key: bytes) -> State | None:
        with self._lock:
            if self._connection is None:
                return None
            try:
                row = self._connection.execute("SELECT state FROM state WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                self._take(error)
                return None
        return None if row is None else np.frombuffer(row[0], dtype="<f4")

    def put(self, key: bytes, state: State) -> None:
        with self._lock:
            if self._connection is None:
                return
            try:
                values = (key, state.astype("<f4").tobytes())
                self._connection.execute("INSERT OR IGNORE INTO state (key, state) VALUES (?, ?)", values)
                self._written += 1
                if self._written % _TRIM_EVERY == 0:
                    self._trim(self._connection)
            except sqlite3.Error as error:
                self._take(error)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS state "
                "(number INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, state BLOB NOT NULL)"
            )
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _trim(self, connection: sqlite3.Connection) -> None:
        """Drop the oldest rows beyond the limit; row numbers grow with age."""
        connection.execute("DELETE FROM state WHERE number <= (SELECT max(number) FROM state) - ?", (self._max_rows,))

    def _take(self, error: sqlite3.Error) -> None:
        """Pass over a file that another process holds for long; give up on one that is full, gone or unreadable."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        _LOG.warning("the state cache %s is not used any more: %s; it may be deleted", self._path, error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class StateCache:
    """The newest states in memory, before an optional shared file. Safe to use from many threads."""

    def __init__(self, file: StateFile | None = None, max_states: int = 20_000) -> None:
        self._file = file
        self._max_states = max_states
        self._states: OrderedDict[bytes, State] = OrderedDict()
        self._lock = threading.Lock()
        self._counts = CacheCounts()

    @property
    def counts(self) -> CacheCounts:
        return self._counts

    def get(self, key: bytes, size: int, *, filed: bool = True) -> State | None:
        """Return the state of ``size`` numbers under ``key``, read-only, or None; ``filed``: look in the file too."""
        state = self.remembered(key)
        if state is not None:
            self._count(hits=1)
            return state
        state = self._file.get(key) if filed and self._file is not None else None
        if state is None or state.shape != (size,):
            self._count(misses=1)
            return None
        self._count(file_hits=1)
        self._remember(key, state)
        return state

    def remembered(self, key: bytes) -> State | None:
        """Return the state under ``key`` if it is in memory, without counting."""
        with self._lock:
            if (state := self._states.get(key)) is not None:
                self._states.move_to_end(key)
            return state

    def put(self, key: bytes, state: State, *, filed: bool = True) -> None:
        """Keep ``state``, which becomes read-only; ``filed``: in the file too."""
        state.flags.writeable = False
        self._remember(key, state)
        if filed and self._file is not None:
            self._file.put(key, state)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _remember(self, key: bytes, state: State) -> None:
        with self._lock:
            self._states[key] = state
            self._states.move_to_end(key)
            while len(self._states) > self._max_states:
                self._states.popitem(last=False)

    def _count(self, hits: int = 0, file_hits: int = 0, misses: int = 0) -> None:
        with self._lock:
            now = self._counts
            self._counts = CacheCounts(now.hits + hits, now.file_hits + file_hits, now.misses + misses)
