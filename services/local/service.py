"""What the embedded servers have in common: one process per folder, found again and ended after any kind of crash."""

from __future__ import annotations

import hashlib
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from services.core.errors import PrerequisiteMissing
from services.local.identity import Identity
from services.local.locks import ProcessLock
from services.local.processes import last_line, names, naming, send, spawn, wait_until

# Nothing of the caller's environment reaches a server: PGDATA, PGOPTIONS or a locale would change what it does.
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

LEFTOVER_SECONDS = 10.0


class Service(Protocol):
    """A server that the supervisor starts, watches and stops."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def endpoint(self) -> str:
        """The field of ``Endpoints`` that holds its URL."""

    def start(self) -> str:
        """Starts it, or does nothing if it runs, and returns its URL; the URL never changes for one object.

        Raises:
            PrerequisiteMissing: it cannot be started.
        """

    def stop(self) -> None:
        """Stops it cleanly; harmless when it does not run."""

    def pid(self) -> int | None:
        """Its process, None when it does not run."""


class ServerProcess:
    """The server process of one folder.

    Args:
        home: the server's folder; created, readable by its owner only.
        name: what messages call it.
        log_path: where its output is appended.
        stop_signals: tried one after the other, each for so many seconds, before SIGKILL; the first is also what the
            kernel sends when the process that started the server is killed.
    """

    def __init__(
        self, home: Path, name: str, log_path: Path, stop_signals: Sequence[tuple[signal.Signals, float]]
    ) -> None:
        self._home = home
        self._name = name
        self._log_path = log_path
        self._stop_signals = stop_signals
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = ProcessLock(home / "lock")
        # Shown in the title of each of the server's processes, by which they are found when their parent is gone. The
        # main process shows ``name=TOKEN``.
        self.token = f"trinity-{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def claim(self) -> None:
        """Takes the folder and ends what an earlier, killed owner left running in it.

        Raises:
            PrerequisiteMissing: a live process uses the folder.
        """
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._lock.acquire():
            raise PrerequisiteMissing(
                f"the private {self._name} in {self._home} is in use by process {self._lock.holder()}",
                "stop that one (`manage.py down`), or set TRINITY_VAR_DIR to another folder",
            )
        self._end_leftovers()

    def launch(self, argv: Sequence[str], identity: Identity | None = None) -> None:
        """Starts ``argv`` in the folder; its output goes to the log."""
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            self._process = spawn(
                argv,
                env=ENVIRONMENT,
                output=log,
                cwd=self._home,
                orphan_signal=self._stop_signals[0][0],
                identity=identity,
            )

    def failure(self, seconds: float) -> PrerequisiteMissing:
        """What to raise when the server did not become ready."""
        process = self._process
        ended = process is not None and process.poll() is not None
        what = f"ended with code {process.returncode}" if process and ended else f"was not ready within {seconds:.0f} s"
        return PrerequisiteMissing(
            f"the private {self._name} in {self._home} {what}: {last_line(self._log_path)}", f"see {self._log_path}"
        )

    def stop(self) -> None:
        """Ends the server and frees the folder."""
        if self._lock.held:
            if (pid := self.pid) is not None:
                self._end([pid])
            self._end_leftovers()
            self._process = None
            self._lock.release()

    def _end_leftovers(self) -> None:
        # Only the main process may be asked: its subprocesses end with it, and take the same signals differently.
        self._end(naming(f"name={self.token}"))
        if not wait_until(lambda: not naming(self.token), LEFTOVER_SECONDS, every=0.1):
            for pid in naming(self.token):
                send(pid, signal.SIGKILL)
            wait_until(lambda: not naming(self.token), LEFTOVER_SECONDS, every=0.1)

    def _end(self, pids: Sequence[int]) -> None:
        for number, seconds in (*self._stop_signals, (signal.SIGKILL, 10.0)):
            if not any(self._runs(pid) for pid in pids):
                return
            for pid in pids:
                send(pid, number)
            wait_until(lambda: not any(self._runs(pid) for pid in pids), seconds)

    def _runs(self, pid: int) -> bool:
        if self._process is not None and self._process.pid == pid:
            return self._process.poll() is None
        return names(pid, self.token)


def make_secret(path: Path) -> None:
    """Writes a password into ``path`` unless there is one; only its owner may read the file."""
    if not path.exists():
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(f"{secrets.token_urlsafe(24)}\n")
        draft.replace(path)
