"""One process at a time per folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from services.core.errors import PrerequisiteMissing
from services.local.processes import wait_until


class ProcessLock:
    """A lock file that names its holder and frees itself when the holder dies, however it dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._file is not None

    def acquire(self) -> bool:
        """Takes the lock; False when another process keeps it. Taking it twice is harmless."""
        if self._file is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._open("a+")
        # ``holder`` of another process takes the lock for an instant, hence the second look.
        if not wait_until(lambda: _locked(file, fcntl.LOCK_EX), 0.5):
            file.close()
            return False
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file
        return True

    def release(self) -> None:
        """Frees it; harmless when not held."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def holder(self) -> int | None:
        """The process that holds it, None when nobody does."""
        if self._file is not None:
            return os.getpid()
        if not self._path.exists():
            return None
        with self._open("r") as file:
            if _locked(file, fcntl.LOCK_SH):
                return None
            written = file.read().strip()
        return int(written) if written.isdigit() else None

    def _open(self, mode: str) -> IO[str]:
        try:
            return open(self._path, mode, opener=_private)
        except PermissionError as error:
            raise PrerequisiteMissing(
                f"{self._path} belongs to another user",
                "run as that user, or set TRINITY_VAR_DIR to a folder of your own",
            ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _locked(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
