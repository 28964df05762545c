"""One child process seen from here: start, ask, end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 120.0
_MOST_BYTES = 65_536


class Lost(Exception):
    """The process ended, or did not answer in time, for reasons that need not be the question's."""


class UsedUp(Exception):
    """The question used up its CPU time, or brought the process down by itself."""


@dataclass(frozen=True)
class Reply:
    """What the child found.

    Attributes:
        equal: the verdict; None when there is none.
        reason: why there is none.
        peak: most bytes of memory the process has used so far.
    """

    equal: bool | None
    reason: str
    peak: int


class Child:
    """A running child. Not for two threads at once.

    Args:
        cpu_seconds: for one question.
        wall_seconds: for one question, far more than the CPU time: only for a process that stands still.
        memory_bytes: of address space.
    """

    def __init__(self, cpu_seconds: float, wall_seconds: float, memory_bytes: int) -> None:
        self._wall_seconds = wall_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "services.symbolic.child", str(cpu_seconds), str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # an interrupt from the keyboard is the parent's to handle
        )
        self._buffer = b""
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, reference: str, answer: str) -> Reply:
        """Return the child's verdict.

        Raises:
            UsedUp: the question was too much for the limits; the child is gone.
            Lost: the child is gone for other reasons.
        """
        self._wait_until_ready()
        message = json.dumps([reference, answer]).encode() + b"\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(message)
            self._process.stdin.flush()
        except OSError as error:
            raise Lost(str(error)) from error
        found = self._read(self._wall_seconds)
        return Reply(found["equal"], found["reason"], found["peak"])

    def end(self) -> None:
        """Kill the process and wait until it is gone. A second call does nothing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written yet has no reader any more
                    pipe.close()

    def _wait_until_ready(self) -> None:
        if not self._ready:
            try:
                self._read(_START_SECONDS)
            except UsedUp as error:
                raise Lost(f"it ended while it started: {error}") from error
            self._ready = True

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Lost(f"no answer within {seconds:g} s")
                piece = os.read(self._process.stdout.fileno(), _MOST_BYTES)
                if not piece:
                    raise self._ended()
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def _ended(self) -> Exception:
        status = self._process.wait()
        if status == -signal.SIGPROF:
            return UsedUp("used up its CPU time")
        if -status in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
            return UsedUp(f"brought the process down by {signal.Signals(-status).name}")
        return Lost(f"it ended with status {status}")


def _environment() -> dict[str, str]:
    """Return what the child sees of the environment: no keys, and a fixed hash seed, as sympy's order depends on it."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {**kept, "PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": "0", "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
