"""Programs under Landlock, seccomp and resource limits: what is left where user namespaces are forbidden.

Weaker than namespaces, and made up for by refusing more: a program may start no process and write no file, it can still
learn whether a path exists, and there is no /proc. Solutions that need those fail here, which the label tells.
"""

from __future__ import annotations

import json
import os
import resource
import select
import time
from collections.abc import Mapping

from services.core.errors import PrerequisiteMissing
from services.core.scoring.ports import Job
from services.sandbox import confine, seccomp
from services.sandbox.backend import (
    ENVIRONMENT,
    FIRST_OWN,
    Child,
    StartFailed,
    end,
    in_memory,
    resource_limits,
    seconds_left,
    spawn,
)
from services.sandbox.interpreter import Interpreter, inside

STATUS, SOURCE = FIRST_OWN, FIRST_OWN + 1
START_SECONDS = 30.0
CURE = "allow user namespaces and install bubblewrap, or run in a container or virtual machine that has them"


class Landlock:
    """The backend."""

    def __init__(self, interpreter: Interpreter, script: str) -> None:
        """Prepare what every program gets.

        Args:
            interpreter: what runs, and confines itself.
            script: the source of ``confine``.

        Raises:
            PrerequisiteMissing: the kernel has no Landlock, or one without scopes.
        """
        self._abi = confine.landlock_abi()
        if self._abi < confine.WANTED_ABI:
            found = f"Landlock of version {self._abi}" if self._abi else "no Landlock"
            raise PrerequisiteMissing(f"the kernel has {found}; version {confine.WANTED_ABI} is needed", CURE)
        self._interpreter = interpreter
        self._readable, self._listed = visible(interpreter)
        self._filter = seccomp.assemble(namespaces=False).hex()
        self._script = script

    @property
    def label(self) -> str:
        return f"landlock {self._abi}, one process, no files written"

    def start(self, job: Job, files: Mapping[int, int]) -> Child:
        status, told = os.pipe()
        own = {STATUS: told, SOURCE: in_memory(job.source.encode())}
        try:
            pid = spawn(self._command(job), ENVIRONMENT, {**files, **own})
        except BaseException:
            os.close(status)
            raise
        finally:
            for ours in own.values():
                os.close(ours)
        try:
            if trouble := began(status):
                raise StartFailed(f"Landlock did not confine a program: {trouble}")
            return Child(pid, pid, os.pidfd_open(pid))
        except BaseException:
            end(pid)
            raise
        finally:
            os.close(status)

    def _command(self, job: Job) -> list[str]:
        # The number of processes is counted by user, so it would be shared; the filter refuses new ones anyway.
        limits = resource_limits(job.limits) | {resource.RLIMIT_FSIZE: 0}
        del limits[resource.RLIMIT_NPROC]
        orders = {
            "parent": os.getpid(),
            "readable": self._readable,
            "listed": self._listed,
            "limits": list(limits.items()),
            "filter": self._filter,
            "command": [*self._interpreter.command, f"/proc/self/fd/{SOURCE}"],
            "environment": ENVIRONMENT,
            "status": STATUS,
        }
        return [self._interpreter.executable, "-I", "-S", "-c", self._script, json.dumps(orders)]


def began(status: int) -> str:
    """Wait until the program has begun; return why it did not, else nothing."""
    deadline = time.monotonic() + START_SECONDS
    ready, _, _ = select.select([status], [], [], seconds_left(deadline))
    return os.read(status, 4096).decode(errors="replace") if ready else f"not within {START_SECONDS:g} s"


def visible(interpreter: Interpreter) -> tuple[list[str], list[str]]:
    """Return what may be read with everything below it, and the folders that may only be listed."""
    readable, listed = [], []
    for path in interpreter.shown:
        if not any(inside(hidden, [path]) for hidden in interpreter.hidden):
            readable.append(path)
            continue
        listed.append(path)
        readable += [entry.path for entry in os.scandir(path) if entry.path not in interpreter.hidden]
    return readable, listed
