"""Starting, finding and ending operating-system processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from services.local.identity import Identity

LAUNCHER = Path(__file__).with_name("launcher.py")
PROC = Path("/proc")


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.02) -> bool:
    """Looks again and again until ``condition`` holds; False when it did not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
    return True


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    output: IO[bytes] | int,
    given: IO[bytes] | int = subprocess.DEVNULL,
    cwd: Path | None = None,
    orphan_signal: signal.Signals = signal.SIGKILL,
    identity: Identity | None = None,
) -> subprocess.Popen[bytes]:
    """Starts ``argv`` as the leader of its own session; it gets ``orphan_signal`` when the calling thread ends.

    Args:
        argv: program and arguments.
        env: the whole environment.
        output: where both of its streams go.
        given: its standard input.
        cwd: its working folder.
        orphan_signal: sent by the kernel when this process dies without having stopped it (Linux only).
        identity: who it should be; None for the caller.
    """
    order = identity.order() if identity else {"way": "direct"}
    order |= {"parent": os.getpid(), "signal": int(orphan_signal)}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(order), *argv],
        env=dict(env),
        cwd=cwd,
        stdin=given,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def naming(token: str) -> list[int]:
    """Live processes, other than this one, with ``token`` in their command line or title."""
    if not PROC.is_dir():
        return _listed(token)
    wanted = token.encode()
    return [pid for pid in _numbers() if wanted in _peek(pid, "cmdline")]


def names(pid: int, token: str) -> bool:
    """Whether ``pid`` is alive and has ``token`` in its command line or title."""
    return token.encode() in _peek(pid, "cmdline") if PROC.is_dir() else pid in _listed(token)


def started_with(variable: str, value: str) -> list[int]:
    """Live processes, other than this one, that inherited ``variable=value``; empty where there is no /proc."""
    wanted = f"{variable}={value}".encode()
    return [pid for pid in _numbers() if wanted in _peek(pid, "environ").split(b"\0")]


def _numbers() -> list[int]:
    numbers = [int(entry) for entry in os.listdir(PROC) if entry.isdigit()] if PROC.is_dir() else []
    return [pid for pid in numbers if pid != os.getpid()]


def _peek(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _listed(token: str) -> list[int]:
    table = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, check=True).stdout.splitlines()
    rows = [line.split(maxsplit=1) for line in table if token.encode() in line]
    return [int(number) for number, _ in rows if int(number) != os.getpid()]


def birth(pid: int) -> str | None:
    """When ``pid`` started, in ticks since boot, so that a reused number is told apart; None if nobody has it."""
    try:
        # The name in brackets may itself hold spaces and brackets.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "unknown" if not PROC.is_dir() and exists(pid) else None


def exists(pid: int) -> bool:
    """Whether a process has this number, be it somebody else's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def send(pid: int, number: signal.Signals) -> None:
    """Signals ``pid``; that it is gone already is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def last_line(log: Path) -> str:
    """The last line that says something, for an error message; a placeholder when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        lines = []
    return next((line.strip() for line in reversed(lines) if line.strip()), "(it said nothing)")
