"""Who supervises a folder, told to the other commands."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.local.endpoints import write_private
from services.local.locks import ProcessLock
from services.local.processes import send, wait_until


@dataclass(frozen=True)
class SupervisorStatus:
    """A running supervisor, as seen from outside.

    Attributes:
        pid: its process.
        ready: whether everything has been started.
        processes: the present process of each service and child that runs.
    """

    pid: int
    ready: bool
    processes: dict[str, int]


def status(var_dir: Path) -> SupervisorStatus | None:
    """The supervisor that serves ``var_dir``, None when nobody does."""
    holder = lock(var_dir).holder()
    if holder is None:
        return None
    try:
        written = json.loads(_path(var_dir).read_text())
    except FileNotFoundError:
        written = {}
    # Between taking the lock and its first note, what is written may be an earlier supervisor's.
    if written.get("pid") != holder:
        return SupervisorStatus(holder, ready=False, processes={})
    return SupervisorStatus(holder, written["ready"], written["processes"])


def ask_to_stop(var_dir: Path, seconds: float = 90.0) -> bool:
    """Stops the supervisor of ``var_dir`` and waits until everything is down; False when nobody ran.

    Raises:
        PrerequisiteMissing: it belongs to another user, or is still stopping after ``seconds``.
    """
    holder = lock(var_dir).holder()
    if holder is None:
        return False
    try:
        send(holder, signal.SIGTERM)
    except PermissionError as error:
        raise PrerequisiteMissing(f"process {holder} belongs to another user", "stop it as that user") from error
    if not wait_until(lambda: lock(var_dir).holder() != holder, seconds):
        raise PrerequisiteMissing(f"process {holder} is still stopping after {seconds:.0f} s", f"see {var_dir / 'log'}")
    return True


def lock(var_dir: Path) -> ProcessLock:
    """What a supervisor of ``var_dir`` holds for as long as it lives."""
    return ProcessLock(var_dir / "run" / "supervisor.lock")


def record(var_dir: Path, present: SupervisorStatus) -> None:
    """Notes the supervisor's own state, for ``status``."""
    write_private(_path(var_dir), json.dumps(asdict(present), indent=1))


def forget(var_dir: Path) -> None:
    """Removes the note; harmless when there is none."""
    _path(var_dir).unlink(missing_ok=True)


def _path(var_dir: Path) -> Path:
    return var_dir / "run" / "supervisor.json"
