"""What every way of confining a program offers to the supervisor."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from services.core.errors import GradingUnavailable
from services.core.scoring.ports import Job, Limits

MIB = 1 << 20
PROCESSES = 64  # and threads, of one program
OPEN_FILES = 256
FILE_BYTES = 64 * MIB
TEMPORARY_BYTES = 128 * MIB
SHARED_MEMORY_BYTES = 64 * MIB

# Fixed: the program's own descriptors from 0, the backend's for itself from FIRST_OWN.
CHANNEL_WRITE, CHANNEL_READ, FIRST_OWN = 3, 4, 10
HIGH = 100  # our own descriptors are kept above every number that is given away

ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "LOGNAME": "nobody",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",  # noqa: S108
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PATH": "/program/bin:/usr/bin",
    "PYTHONHASHSEED": "0",  # the same program, the same verdict
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "nobody",
}


@dataclass(frozen=True)
class Child:
    """A program that has started.

    Attributes:
        pid: our own child, whose end is the end of everything.
        root: the process below which all of the program's processes are.
        root_handle: pidfd of ``root``; its end ends all of them.
        held: descriptors to keep open as long as the program runs.
    """

    pid: int
    root: int
    root_handle: int
    held: tuple[int, ...] = ()

    def close(self) -> None:
        for handle in (self.root_handle, *self.held):
            os.close(handle)


class Backend(Protocol):
    """A way to confine programs."""

    @property
    def label(self) -> str:
        """Name and version, and what of the whole it lacks."""
        ...

    def start(self, job: Job, files: Mapping[int, int]) -> Child:
        """Start a program whose descriptors are ``files`` (its number: ours) and nothing else.

        Raises:
            StartFailed: the program's first instruction was not reached.
        """
        ...


class StartFailed(GradingUnavailable):
    """The sandbox did not come about."""


def resource_limits(limits: Limits) -> dict[int, int]:
    """Return the kernel's limits of one process; the supervisor holds the sum to the job's own."""
    seconds = int(limits.cpu_seconds) + 2
    return {
        resource.RLIMIT_AS: 2 * limits.memory_bytes + 256 * MIB,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_NPROC: PROCESSES,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }


def in_memory(content: bytes) -> int:
    """Return a descriptor that reads ``content``: a file that nobody has to delete."""
    handle = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(handle, "wb", buffering=0, closefd=False) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
    # Whoever gets it could otherwise open it again for writing, and keep memory that nobody counts.
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, seals)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def spawn(command: list[str], environment: Mapping[str, str], files: Mapping[int, int]) -> int:
    """Start a process with exactly these descriptors, every signal as it is at first, in a session of its own."""
    lifted = {number: fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, HIGH) for number, ours in files.items()}
    try:
        return os.posix_spawn(
            command[0],
            command,
            dict(environment),
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in lifted.items()],
            setsid=True,
            setsigmask=(),
            setsigdef=[number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)],
        )
    except OSError as error:
        raise StartFailed(f"{command[0]} could not be started: {os.strerror(error.errno or errno.EIO)}") from error
    finally:
        for ours in lifted.values():
            os.close(ours)


def end(pid: int) -> None:
    """Kill and reap a child of ours."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def seconds_left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
