"""Programs in namespaces of their own, made by bubblewrap without any privilege."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import stat
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.core.scoring.ports import Job
from services.sandbox import seccomp
from services.sandbox.backend import (
    ENVIRONMENT,
    FIRST_OWN,
    SHARED_MEMORY_BYTES,
    TEMPORARY_BYTES,
    Child,
    StartFailed,
    end,
    in_memory,
    resource_limits,
    seconds_left,
    spawn,
)
from services.sandbox.interpreter import Interpreter

WANTED_VERSION = (0, 8)
START_SECONDS = 30.0  # on a machine with nothing else to do it takes 5 ms
PROGRAM = "/program/main.py"
COMMANDS = ("/program/bin/python", "/program/bin/python3")
PROCESSES = ("--proc", "/proc")
# bubblewrap's own process in there has the program's user, who could write into its memory.
FIRST_PROCESS = ("--perms", "0555", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
FILTER, STATUS, GO, SOURCE = range(FIRST_OWN, FIRST_OWN + 4)
CURE = "install bubblewrap 0.8 or newer (`apt install bubblewrap`, or `pip install -c constraints.txt -e '.[sandbox]'`)"


@dataclass(frozen=True)
class Tool:
    """A bubblewrap that works here.

    Attributes:
        path: the binary.
        version: as it tells it.
        libraries: a folder with libraries of its own, empty for none.
    """

    path: str
    version: str
    libraries: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}


def look_at(path: Path, libraries: str = "") -> Tool:
    """Return the tool in a file.

    Raises:
        PrerequisiteMissing: it does not run, is too old, or runs with root's rights.
    """
    try:
        if path.stat().st_mode & stat.S_ISUID:
            raise PrerequisiteMissing(f"{path} runs with root's rights (setuid)", CURE)
        version = tell(path, libraries)
    except (OSError, subprocess.SubprocessError) as error:
        raise PrerequisiteMissing(f"{path} does not run: {error}", CURE) from error
    numbers = re.search(r"(\d+)\.(\d+)[.\d]*", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < WANTED_VERSION:
        raise PrerequisiteMissing(f"{path} is {version.strip() or 'of no version'}", CURE)
    return Tool(str(path), numbers[0], libraries)


def tell(path: Path, libraries: str) -> str:
    environment = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, env=environment, check=True)
    return done.stdout


class Bubblewrap:
    """The backend."""

    def __init__(
        self, tool: Tool, interpreter: Interpreter, places: Mapping[str, str], *, processes_visible: bool = True
    ) -> None:
        """Compose the command once.

        Args:
            tool: what makes the sandbox.
            interpreter: what runs in it.
            places: where the interpreter's parts can be reached; under their own names when absent.
            processes_visible: whether to mount a /proc of its own; containers often forbid that.
        """
        self._tool = tool
        self._interpreter = interpreter
        self._processes_visible = processes_visible
        self._filter = seccomp.assemble()
        self._places = places
        self._command = self._compose()

    @property
    def label(self) -> str:
        return f"bubblewrap {self._tool.version}" + ("" if self._processes_visible else " without /proc")

    def _compose(self) -> list[str]:
        shown = [part for path in self._interpreter.shown for part in ("--ro-bind", self._places.get(path, path), path)]
        return [
            *(self._tool.path, "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
            *("--clearenv", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
            *("--seccomp", str(FILTER), "--json-status-fd", str(STATUS), "--block-fd", str(GO)),
            # First: an interpreter's environment may lie below it.
            *("--size", str(TEMPORARY_BYTES), "--tmpfs", "/tmp"),  # noqa: S108
            *shown,
            *(part for path in self._interpreter.hidden for part in ("--perms", "0555", "--tmpfs", path)),
            *(part for path in self._interpreter.hidden for part in ("--remount-ro", path)),
            *(part for path, target in self._interpreter.links for part in ("--symlink", target, path)),
            *("--dev", "/dev", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
            *((*PROCESSES, *FIRST_PROCESS) if self._processes_visible else ()),
            *("--file", str(SOURCE), PROGRAM),
            *(part for name in COMMANDS for part in ("--symlink", self._interpreter.executable, name)),
            *("--remount-ro", "/", "--chdir", "/tmp"),  # noqa: S108
            *(part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)),
            *("--", *self._interpreter.command, PROGRAM),
        ]

    def start(self, job: Job, files: Mapping[int, int]) -> Child:
        status, told = os.pipe()
        held, go = os.pipe()
        own = {FILTER: in_memory(self._filter), STATUS: told, GO: held, SOURCE: in_memory(job.source.encode())}
        try:
            pid = spawn(self._command, self._tool.environment, {**files, **own})
        except StartFailed:
            os.close(status)
            os.close(go)
            raise
        finally:
            for ours in own.values():
                os.close(ours)
        try:
            return release(pid, status, go, job)
        except (OSError, ValueError) as error:
            os.close(status)
            end(pid)
            raise StartFailed(f"bubblewrap did not make a sandbox: {error}") from error
        finally:
            os.close(go)


def release(pid: int, status: int, go: int, job: Job) -> Child:
    """Limit the waiting sandbox from outside, where a program could not, and let it go on."""
    root = first_process(status)
    handle = os.pidfd_open(root)
    try:
        for which, value in resource_limits(job.limits).items():
            resource.prlimit(root, which, (value, value))
        os.write(go, b"g")
    except OSError:
        os.close(handle)
        raise
    return Child(pid, root, handle, held=(status,))  # bubblewrap writes to it once more, at the end


def first_process(status: int) -> int:
    """Read the process that bubblewrap put into the new namespaces.

    Raises:
        ValueError: it ended without making one, or took too long.
    """
    deadline, text = time.monotonic() + START_SECONDS, b""
    while b"\n" not in text:
        ready, _, _ = select.select([status], [], [], seconds_left(deadline))
        part = os.read(status, 4096) if ready else b""
        if not part:
            raise ValueError("it ended at once" if ready else f"not within {START_SECONDS:g} s")
        text += part
    return int(json.loads(text.split(b"\n")[0])["child-pid"])
