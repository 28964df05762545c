"""Attacks that a sandbox must withstand before anything is graded in it; all of them take about a second."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.core.errors import GradingUnavailable
from services.core.scoring.ports import Ending, Job, Limits
from services.sandbox.backend import ENVIRONMENT, MIB, PROCESSES, Backend
from services.sandbox.supervise import execute

BRIEF = Limits(cpu_seconds=2.0, wall_seconds=5.0, memory_bytes=256 * MIB, output_bytes=65536)
LEAVING = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
print("left", flush=True)
"""
FILLING = "kept = b'x' * 100_000_000\nimport time\ntime.sleep(60)\n"
SPINNING = "while True: pass\n"
ALLOWED_VARIABLES = {*ENVIRONMENT, "PWD", "LC_CTYPE"}


@dataclass(frozen=True)
class Check:
    """One attack.

    Attributes:
        name: what was attacked.
        held: whether the sandbox withstood.
        detail: what came of it.
    """

    name: str
    held: bool
    detail: str


def run(backend: Backend, attacks: str) -> list[Check]:
    """Attack a backend.

    Args:
        backend: what is attacked.
        attacks: the source of ``probe``.

    Raises:
        GradingUnavailable: it does not run programs at all.
    """
    with secrets() as (folder, port):
        facts = probed(backend, attacks, folder, port)
    return [
        *from_inside(facts),
        leftovers(backend),
        limit(backend, "memory", FILLING, Ending.MEMORY, Limits(2.0, 5.0, 64 * MIB, 65536)),
        limit(backend, "processor time", SPINNING, Ending.CPU_TIME, Limits(0.2, 5.0, 64 * MIB, 65536)),
    ]


def digest(backend: Backend, version: str, attacks: str, checks: list[Check]) -> str:
    """Return what changes when the backend, its attacks or their outcome do."""
    outcome = [backend.label, version, attacks, LEAVING, *(f"{one.name}{one.held}" for one in checks)]
    return hashlib.sha256("\0".join(outcome).encode()).hexdigest()[:8]


@contextlib.contextmanager
def secrets() -> Iterator[tuple[Path, int]]:
    """Provide a folder with a file that every user may read, and a port where somebody listens."""
    with (
        tempfile.TemporaryDirectory(prefix="trinity-self-test-") as name,
        socket.create_server(("127.0.0.1", 0)) as ear,
    ):
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "answers.txt").write_text("42")
        (folder / "answers.txt").chmod(0o644)
        yield folder, ear.getsockname()[1]


def probed(backend: Backend, attacks: str, folder: Path, port: int) -> dict[str, list[str]]:
    orders = json.dumps({"folder": str(folder), "port": port, "homes": ["/root", os.path.expanduser("~")]})
    done = execute(backend, Job(attacks, orders.encode(), BRIEF))
    try:
        facts: dict[str, list[str]] = json.loads(done.stdout)
    except ValueError as error:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise GradingUnavailable(f"the first program ended with {done.ending} {done.status}: {said}") from error
    return facts


def from_inside(facts: dict[str, list[str]]) -> list[Check]:
    strange = sorted(set(facts.pop("environment")) - ALLOWED_VARIABLES)
    started = int(facts.pop("processes")[0])
    attacks = [Check(name, not worked, ", ".join(worked) or "refused") for name, worked in facts.items()]
    return [
        *attacks,
        Check("environment", not strange, ", ".join(strange) or "only its own"),
        Check("processes", started < PROCESSES, f"{started} could be started"),
    ]


def leftovers(backend: Backend) -> Check:
    """Leave a process behind that belongs to no session and has no parent, and look for it."""
    execute(backend, Job(LEAVING, limits=BRIEF))
    tasks = Path("/proc/self/task")
    left = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return Check("leftover processes", not left, f"{len(left)} left" if left else "none left")


def limit(backend: Backend, name: str, source: str, wanted: Ending, limits: Limits) -> Check:
    done = execute(backend, Job(source, limits=limits))
    return Check(name, done.ending is wanted, f"ended for {done.ending}" if done.status is None else f"{done.status}")
