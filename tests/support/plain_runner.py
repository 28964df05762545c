"""A ``CodeRunner`` without walls, for tests of scorers alone: plain processes with resource limits."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from services.core.scoring.ports import Ending, Execution, Job

_SHELL = 'ulimit -t "$1" -v "$2" -c 0; exec "$3" -I -S -B "$4"'
_SHELL_JOINED = 'ulimit -t "$1" -v "$2" -c 0; exec "$3" -I -S -B "$4" 3>&"$5" 4<&"$6"'


class PlainRunner:
    """Runs programs as this user, in folders of their own."""

    name = "plain processes"

    def run(self, job: Job) -> Execution:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return _Running(job, Path(folder)).finish()

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            places = [Path(folder) / name for name in ("examiner", "candidate")]
            ends = [_high(end) for end in (*os.pipe(), *os.pipe())]
            for place in places:
                place.mkdir()
            first = _Running(examiner, places[0], (ends[1], ends[2]))
            second = _Running(candidate, places[1], (ends[3], ends[0]))
            for end in ends:
                os.close(end)
            ended = first.finish()
            second.kill(None)
            return ended, second.finish()


def _high(descriptor: int) -> int:
    """Return the descriptor under a number that 3 and 4 cannot meet."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved


@dataclass
class _Running:
    """One process, its readers and its clock."""

    job: Job
    folder: Path
    joined: tuple[int, int] | None = None
    _ended_for: Ending | None = None
    _read: dict[str, bytearray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        script = self.folder / "program.py"
        script.write_text(self.job.source)
        limits = self.job.limits
        values = (
            math.ceil(limits.cpu_seconds),
            limits.memory_bytes >> 10,
            sys.executable,
            script,
            *(self.joined or ()),
        )
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            ["bash", "-c", _SHELL_JOINED if self.joined else _SHELL, "bash", *map(str, values)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
            pass_fds=self.joined or (),
            start_new_session=True,
        )
        streams = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        self.helpers = [threading.Thread(target=self._drain, args=item) for item in streams.items()]
        self.helpers.append(threading.Thread(target=self._feed))
        self.clock = threading.Timer(limits.wall_seconds, self.kill, [Ending.WALL_TIME])
        for one in (*self.helpers, self.clock):
            one.start()

    def kill(self, reason: Ending | None) -> None:
        """End the process and its children for a reason; None when nothing is wrong with it."""
        self._ended_for = self._ended_for or reason
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def finish(self) -> Execution:
        _, status, used = os.wait4(self.process.pid, 0)
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - self.started
        self.clock.cancel()
        self.kill(None)
        for helper in self.helpers:
            helper.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        cpu = used.ru_utime + used.ru_stime
        ending = self._ended_for or self._ending(code, cpu)
        exact = code if ending in (Ending.EXITED, Ending.KILLED) else None
        return Execution(ending, exact, bytes(self._read["stdout"]), bytes(self._read["stderr"]), wall, cpu)

    def _ending(self, code: int, cpu: float) -> Ending:
        # The kernel counts by its own clock, which may run ahead of the one that is told afterwards.
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= 0.75 * self.job.limits.cpu_seconds):
            return Ending.CPU_TIME
        return Ending.EXITED if code >= 0 else Ending.KILLED

    def _drain(self, name: str, stream: BinaryIO) -> None:
        kept = self._read[name] = bytearray()
        while chunk := os.read(stream.fileno(), 1 << 16):
            kept += chunk
            if len(kept) > self.job.limits.output_bytes:
                del kept[self.job.limits.output_bytes :]
                self.kill(Ending.OUTPUT)
                return

    def _feed(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(self.job.stdin)
        with suppress(OSError):
            self.process.stdin.close()
