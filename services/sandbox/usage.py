"""What a tree of processes uses, and how busy the machine is, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
PF_EXITING = 0x4
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_PROCESSES = 4096  # more than any limit allows; ends the walk whatever happens


@dataclass(frozen=True)
class Usage:
    """What all living processes below one use, and the dead ones that somebody waited for.

    Attributes:
        cpu_seconds: processor time.
        resident_bytes: memory, pages that processes share counted once for each.
        pids: of the living.
    """

    cpu_seconds: float
    resident_bytes: int
    pids: tuple[int, ...]

    def shared_bytes(self) -> int:
        """Return the memory with shared pages counted once; much slower to find out than ``resident_bytes``."""
        return sum(proportional(pid) for pid in self.pids)


def of_tree(root: int) -> Usage:
    """Add up a process and everything below it."""
    cpu, resident, waiting = 0.0, 0, [root]
    seen: list[int] = []
    while waiting and len(seen) < MOST_PROCESSES:
        pid = waiting.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
            waiting.extend(children(pid, threads=int(fields[17])))
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile
        seen.append(pid)
        cpu += sum(int(field) for field in fields[11:15]) * TICK
        resident += int(fields[21]) * PAGE
    return Usage(cpu, resident, tuple(seen))


def children(pid: int, *, threads: int) -> list[int]:
    """Return the processes that any thread of a process started."""
    tasks = [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task")
    found: list[int] = []
    for task in tasks:
        try:
            found.extend(int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
        except OSError:
            continue
    return found


def is_over(root: int) -> bool:
    """Tell whether the first program below a process, or the process itself when it has no children, is ending.

    A process that ends closes its files before others can wait for it; the kernel marks it before that.
    """
    try:
        program = min(children(root, threads=1), default=root)
        state, *fields = Path(f"/proc/{program}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return True
    return state in (b"Z", b"X") or bool(int(fields[5]) & PF_EXITING)


def proportional(pid: int) -> int:
    """Return a process's share of memory, 0 for one that ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def runnable() -> int:
    """Return how many threads of the whole machine want a processor at this moment."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


def cores() -> int:
    return len(os.sched_getaffinity(0))


def killed_for_memory() -> int:
    """Return how often the kernel has killed a process because the machine was out of memory."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


class FairClock:
    """Real time, slowed down as much as the machine is overloaded, so that a wall limit means the same on a busy one.

    A machine with twice as many runnable threads as cores gives each of them half of the time. Time in which this
    process itself was not scheduled did not pass for the program either.
    """

    SLOWEST = 10.0  # an end comes on any machine
    LONGEST_STEP = 0.25

    def __init__(self, now: float) -> None:
        self._last = now
        self._cores = cores()
        self.seconds = 0.0

    def advance(self, now: float, threads: int) -> None:
        """Let the time since the last call pass.

        Args:
            now: the monotonic clock.
            threads: runnable ones of the machine.
        """
        step, self._last = now - self._last, now
        crowding = max(1.0, threads / self._cores)
        self.seconds += max(min(step, self.LONGEST_STEP) / crowding, step / self.SLOWEST)
