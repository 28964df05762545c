"""Every operation on a file fails once: a cache costs time and no result, published addresses stay whole."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.core.protocol.transcript import Transcript
from services.core.states import CampaignState
from services.encoder.state_cache import StateCache, StateFile
from services.local import endpoints
from services.local.endpoints import Endpoints
from services.storage.engine import Database
from tests.support.fault_doubles import StubEncoder, StubEncoders, submit, tell, tiny_campaign
from tests.support.faults import Stage, hurry, spread
from tests.support.outcomes import outcome_of, same_outcome

__all__ = ["hurry"]

FULL_DISK = OSError(errno.ENOSPC, "No space left on device")
BROKEN_DISK = OSError(errno.EIO, "Input/output error")


@dataclass
class Counter:
    """Raises ``error`` at one call of whatever it guards."""

    at: int = 0
    error: Exception = FULL_DISK
    count: int = 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise self.error


@dataclass
class FailingConnection:
    """A SQLite connection whose n-th statement fails."""

    real: sqlite3.Connection
    counter: Counter

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.counter.step()
        return self.real.execute(*arguments)

    def close(self) -> None:
        self.real.close()


@dataclass
class CachedEncoder(StubEncoder):
    """An encoder that asks the product's cache first."""

    cache: StateCache

    def __init__(self, hidden_size: int, cache: StateCache) -> None:
        super().__init__(hidden_size)
        self.cache = cache

    def encode(self, transcript: Transcript, offsets: object) -> np.ndarray[Any, np.dtype[np.float32]]:
        key = repr(transcript).encode()
        state = self.cache.get(key, self.hidden_size)
        if state is None:
            state = super().encode(transcript, offsets)
            self.cache.put(key, state)
        return state


@dataclass
class CachedEncoders(StubEncoders):
    cache: StateCache = field(default_factory=StateCache)

    def encoder(self, spec: object, pool_size: int) -> StubEncoder:
        return CachedEncoder(self.hidden_size, self.cache)


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("made to fail")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "error",
    [sqlite_error(sqlite3.SQLITE_FULL), sqlite_error(sqlite3.SQLITE_IOERR), sqlite_error(sqlite3.SQLITE_BUSY)],
    ids=["full", "broken", "busy"],
)
def test_a_cache_file_that_fails_at_any_statement_changes_no_state_and_no_outcome(
    database_url: str,
    database: Database,
    hurry: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    counter = Counter()
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def failing(*arguments: Any, **named: Any) -> FailingConnection:
        counter.step()
        return FailingConnection(connect(*arguments, **named), counter)

    monkeypatch.setattr("services.encoder.state_cache.sqlite3.connect", failing)

    def play(name: str) -> Any:
        cache = StateCache(StateFile(tmp_path / f"{name}.sqlite"), max_states=1)
        stage = Stage(database_url, database, encoders=CachedEncoders(cache=cache))
        campaign = submit(database, tiny_campaign(name=name))
        assert stage.play(campaign) is CampaignState.COMPLETED
        assert (stage.escaped, stage.notes.errors) == ([], [])
        stage.close()
        cache.close()
        return campaign

    reference = outcome_of(database, play("calm"))
    statements, counter.error = counter.count, error
    for at in spread(statements, 6):
        counter.count, counter.at = 0, at
        same_outcome(database, play(f"fails-{at}"), reference)
    tell(f"{statements} statements on the file, {len(spread(statements, 6))} tried")


@pytest.mark.parametrize("error", [FULL_DISK, BROKEN_DISK], ids=["full", "broken"])
def test_addresses_that_cannot_be_written_leave_the_old_ones_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    old, new = Endpoints("postgresql://old", "redis://old"), Endpoints("postgresql://new", "redis://new")
    counter = Counter(error=error)
    with guarded(monkeypatch, counter):
        endpoints.write(tmp_path, old)
    steps = counter.count
    for at in range(1, steps + 1):
        counter.count, counter.at = 0, at
        with guarded(monkeypatch, counter), pytest.raises(OSError, match=error.strerror or ""):
            endpoints.write(tmp_path, new)
        assert endpoints.read(tmp_path) == old
    counter.at = 0
    endpoints.write(tmp_path, new)
    assert endpoints.read(tmp_path) == new
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["services.json"]
    tell(f"{steps} steps")


@contextmanager
def guarded(monkeypatch: pytest.MonkeyPatch, counter: Counter) -> Iterator[None]:
    """Count the steps of writing a file while it lasts."""

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path, *arguments: Any, **named: Any) -> Any:
            counter.step()
            return real(path, *arguments, **named)

        return step

    with monkeypatch.context() as patch:
        for name in ("mkdir", "touch", "write_text", "replace"):
            patch.setattr(Path, name, counted(getattr(Path, name)))
        yield
