"""One child program of the supervisor: started, ended with its whole session, started again with back-off."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from services.local.processes import spawn

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
# A child that lived this long counts as having started well; its next failure is a first one again.
SETTLED_SECONDS = 60.0
LONGEST_LOG_BYTES = 16 * 1024 * 1024


class Restart(StrEnum):
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Child:
    """A program to keep running.

    Attributes:
        name: what messages call it; its output goes to ``log/NAME.log``.
        argv: program and arguments.
        env: added to the supervisor's environment.
        cwd: its folder; the supervisor's by default.
        restart: whether it is started again after it ended.
        stage: lower stages start first and stop last; the children of one stage start and stop together.
        ready: tells that it works; the next stage waits for it.
        ready_seconds: for how long to wait before going on without.
        stop_signal: asks it to end.
        stop_seconds: for how long to wait before ending it, and all that it started, by force.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    restart: Restart = Restart.ALWAYS
    stage: int = 0
    ready: Callable[[], bool] | None = None
    ready_seconds: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0


class Backoff:
    """How long to wait before the next start of something that keeps ending."""

    def __init__(self) -> None:
        self.failures = 0

    def delay(self, lived_seconds: float) -> float:
        """Counts one more end after ``lived_seconds``; half a second at first, doubling up to half a minute."""
        self.failures = 1 if lived_seconds >= SETTLED_SECONDS else self.failures + 1
        return min(FIRST_DELAY_SECONDS * 2.0 ** min(self.failures - 1, 16), LONGEST_DELAY_SECONDS)


class RunningChild:
    """The life of one ``Child``; not a process but a sequence of them."""

    def __init__(self, child: Child, log_dir: Path, environment: Mapping[str, str]) -> None:
        self.child = child
        self.log_path = log_dir / f"{child.name}.log"
        self.backoff = Backoff()
        self.due: float | None = None
        self._environment = {**environment, **child.env}
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def lived(self) -> float:
        """Seconds since its latest start."""
        return time.monotonic() - self._started

    def start(self) -> None:
        """Starts it now."""
        self.due = None
        self._started = time.monotonic()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.log_path.exists() and self.log_path.stat().st_size > LONGEST_LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as log:
            self._process = spawn(self.child.argv, env=self._environment, output=log, cwd=self.child.cwd)

    def ended(self) -> int | None:
        """Its exit code (negative: the signal) once, when it has ended since the last look; takes its session along."""
        if self._process is None:
            return None
        # Looking without reaping keeps the number, and thus the group's, from being given to somebody else.
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self._kill_group(self._process.pid)
        code = self._process.wait()
        self._process = None
        return code

    def ask_to_stop(self) -> None:
        """Sends the stop signal to the program itself, which knows what its own processes need."""
        self.due = None
        if self._process is not None:
            self._process.send_signal(self.child.stop_signal)

    def kill(self) -> None:
        """Ends it and all that it started, now."""
        if self._process is not None:
            self._kill_group(self._process.pid)
            self._process.wait()
            self._process = None

    @staticmethod
    def _kill_group(group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return


def describe(code: int) -> str:
    """An exit code in words."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
