"""Starts workers fast: one process has loaded what every worker loads, and each worker is a fork of it.

Loading torch and litellm takes ten seconds of one core; a run with hundreds of kills would do little else. The fork
runs ``worker.__main__.main`` as ``python -m worker`` does. Run as ``python -m tests.chaos.nursery``: orders come in as
JSON lines, one line goes out for every start and every end.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
TICK_SECONDS = 0.02
START_SECONDS = 180.0


@dataclass
class Fork:
    """A started worker; ``code`` is set when it has ended, negative for a signal."""

    pid: int
    code: int | None = None

    def ended(self) -> int | None:
        return self.code


@dataclass
class Nursery:
    """Context manager around the nursery process; any thread may start workers.

    ``environment`` is added to that of the nursery itself, for what takes effect when a program starts.
    """

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _started: Queue[Fork] = field(default_factory=Queue)
    _forks: dict[int, Fork] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Nursery:
        with (self.folder / "nursery.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.nursery"],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **self.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._reader = threading.Thread(target=self._read, name="nursery", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self, environment: Mapping[str, str], log: Path) -> Fork:
        """Fork a worker with exactly this environment; its output is appended to ``log``."""
        assert self._process is not None
        assert self._process.stdin is not None
        order = json.dumps({"environment": dict(environment), "log": str(log)})
        with self._lock:
            self._process.stdin.write(f"{order}\n".encode())
            self._process.stdin.flush()
            return self._started.get(timeout=START_SECONDS)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "started" in told:
                fork = self._forks[told["started"]] = Fork(told["started"])
                self._started.put(fork)
            else:
                self._forks.pop(told["ended"]).code = told["code"]


def serve(orders: IO[bytes]) -> dict[str, Any] | None:
    """Serve until the orders end (None); in a fork, return what it was ordered to be."""
    waiting = b""
    while True:
        if select.select([orders], [], [], TICK_SECONDS)[0]:
            read = os.read(orders.fileno(), 65536)
            if not read:
                return None
            *lines, waiting = (waiting + read).split(b"\n")
            for line in lines:
                if (pid := os.fork()) == 0:
                    return dict(json.loads(line))
                say({"started": pid})
        report_ended()


def report_ended() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def say(told: Mapping[str, object]) -> None:
    os.write(1, f"{json.dumps(told)}\n".encode())


def become(order: Mapping[str, Any]) -> None:
    """Turn the fork into a process of its own that dies with the nursery."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(order["environment"])


def main() -> int:
    from services.encoder import slm  # loaded by the first decision otherwise
    from worker.__main__ import main as work

    del slm
    gc.collect()
    gc.freeze()
    order = serve(sys.stdin.buffer)
    if order is None:
        return 0
    become(order)
    return work()


if __name__ == "__main__":
    sys.exit(main())
