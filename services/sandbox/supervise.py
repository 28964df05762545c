"""One program from its start to its end: reading what it writes, watching what it uses, and ending all of it."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.core.errors import GradingUnavailable
from services.core.scoring.ports import Ending, Execution, Job, Limits
from services.sandbox import usage
from services.sandbox.backend import Backend, Child, StartFailed, in_memory

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.02
WATCHED_SHARE = 20  # a look may take a twentieth of the pause until the next
END_SECONDS = 10.0
CHUNK = 65536
STDIN, STDOUT, STDERR = range(3)


@dataclass
class Output:
    """What came out of one pipe, up to a cap."""

    handle: int
    cap: int
    content: bytearray = field(default_factory=bytearray)
    open: bool = True

    def take(self) -> bool:
        """Read once; return whether the cap was passed."""
        try:
            part = os.read(self.handle, CHUNK)
        except BlockingIOError:
            return False
        self.open = bool(part)
        self.content += part[: self.cap + 1 - len(self.content)]
        return len(self.content) > self.cap

    def rest(self) -> bool:
        """Read what is there without waiting for more; return whether the cap was passed."""
        os.set_blocking(self.handle, False)
        while self.open:
            before = len(self.content)
            if self.take():
                return True
            if self.open and len(self.content) == before:
                return False
        return False


def execute(
    backend: Backend, job: Job, *, channel: Mapping[int, int] | None = None, halts: Sequence[int] = ()
) -> Execution:
    """Run a program to its end.

    Args:
        backend: what confines it.
        job: the program.
        channel: further descriptors for it, its number: ours; they are closed here once it has them.
        halts: descriptors of which one becomes readable when the program shall end; it then counts as ended by itself.

    Raises:
        GradingUnavailable: the sandbox failed, not the program.
    """
    reading, writing = zip(os.pipe(), os.pipe(), strict=True)
    given = {STDIN: in_memory(job.stdin), STDOUT: writing[0], STDERR: writing[1], **(channel or {})}
    outputs = [Output(handle, job.limits.output_bytes) for handle in reading]
    try:
        kills = usage.killed_for_memory()
        try:
            child = backend.start(job, given)
        except StartFailed as error:
            outputs[1].rest()
            said = outputs[1].content.decode(errors="replace").strip()
            raise StartFailed(f"{error}{said and ': ' + said[:300]}") from error
        finally:
            for handle in given.values():
                os.close(handle)
        return Supervision(child, job.limits, outputs, halts, kills).to_the_end()
    finally:
        for output in outputs:
            os.close(output.handle)


class Supervision:
    """The watch over one program."""

    def __init__(
        self, child: Child, limits: Limits, outputs: list[Output], halts: Sequence[int], kills_before: int
    ) -> None:
        self._child = child
        self._limits = limits
        self._outputs = outputs
        self._halts = halts
        self._kills_before = kills_before
        self._began = time.monotonic()
        self._clock = usage.FairClock(self._began)
        self._cpu_seconds = 0.0
        self._peak_bytes = 0
        self._halted = False

    def to_the_end(self) -> Execution:
        """Return how the program ended; nothing of it is left then."""
        try:
            reason = self._watch()
        finally:
            status = self._end()
        wall = time.monotonic() - self._began
        passed = [output.rest() for output in self._outputs]
        if reason is None and any(passed):
            reason = Ending.OUTPUT
        ending, code = self._verdict(reason or self._passed_between_looks(), status)
        stdout, stderr = (bytes(output.content[: self._limits.output_bytes]) for output in self._outputs)
        return Execution(ending, code, stdout, stderr, wall, self._cpu_seconds)

    def _watch(self) -> Ending | None:
        """Wait until the program ends or passes a limit; None for the former."""
        poll = select.poll()
        handles = {output.handle: output for output in self._outputs}
        for handle in [*handles, self._child.root_handle, *self._halts]:
            poll.register(handle, select.POLLIN)
        look_at = self._began + SHORTEST_PAUSE
        while True:
            for handle, _ in poll.poll(max(0.0, look_at - time.monotonic()) * 1000):
                output = handles.get(handle)
                if output is None:
                    self._halted = handle in self._halts and not usage.is_over(self._child.root)
                    if not self._halted:
                        readable(self._child.root_handle)
                    return None
                if output.take():
                    return Ending.OUTPUT
                if not output.open:
                    poll.unregister(handle)
            if (now := time.monotonic()) >= look_at:
                if (reason := self._look(now)) is not None:
                    return reason
                cost = time.monotonic() - now
                look_at = now + cost + max(LONGEST_PAUSE, cost * WATCHED_SHARE)

    def _look(self, now: float) -> Ending | None:
        """Compare what the tree uses with its limits."""
        self._clock.advance(now, usage.runnable())
        tree = usage.of_tree(self._child.root)
        self._cpu_seconds = max(self._cpu_seconds, tree.cpu_seconds)
        if self._cpu_seconds > self._limits.cpu_seconds:
            return Ending.CPU_TIME
        if tree.resident_bytes > self._limits.memory_bytes and tree.shared_bytes() > self._limits.memory_bytes:
            return Ending.MEMORY
        return Ending.WALL_TIME if self._clock.seconds > self._limits.wall_seconds else None

    def _end(self) -> int:
        """Kill whatever is left, wait for all of it, and return the wait status.

        The first process of the namespaces goes first, so that the times of all the others are still collected.

        Raises:
            GradingUnavailable: the kernel does not let go of it.
        """
        last = os.pidfd_open(self._child.pid)
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._child.root_handle, signal.SIGKILL)
            if not readable(last):
                signal.pidfd_send_signal(last, signal.SIGKILL)
            if not (readable(last) and readable(self._child.root_handle)):
                raise GradingUnavailable("a sandboxed program does not end although it was killed")
            _, status, used = os.wait4(self._child.pid, 0)
            inside = inherited(self._child)
            total = sum(each.ru_utime + each.ru_stime for each in (used, inside) if each is not None)
            self._cpu_seconds = max(self._cpu_seconds, total)
            self._peak_bytes = 0 if inside is None else inside.ru_maxrss * 1024
            return status
        finally:
            os.close(last)
            self._child.close()

    def _passed_between_looks(self) -> Ending | None:
        """Tell whether it passed a limit and then ended by itself: verdicts do not depend on when the watch looks."""
        if self._cpu_seconds > self._limits.cpu_seconds:
            return Ending.CPU_TIME
        return Ending.MEMORY if self._peak_bytes > self._limits.memory_bytes else None

    def _verdict(self, reason: Ending | None, status: int) -> tuple[Ending, int | None]:
        if reason is not None:
            return reason, None
        if self._halted:
            return Ending.EXITED, None
        code = os.waitstatus_to_exitcode(status)
        if code > 128 and code - 128 in signal.valid_signals():
            code = 128 - code  # bubblewrap reports an end by a signal as shells do
        if code == -signal.SIGKILL and usage.killed_for_memory() > self._kills_before:
            raise GradingUnavailable("the machine ran out of memory while a program ran")
        return (Ending.KILLED if code < 0 else Ending.EXITED), code


def inherited(child: Child) -> resource.struct_rusage | None:
    """Return what the tree used whose first process was left to this one, the next reaper above it.

    A child of this process itself counts this process's memory at its start as its own, so it tells nothing of memory.
    """
    if child.root == child.pid:
        return None
    try:
        return os.wait4(child.root, 0)[2]
    except ChildProcessError:
        return None


def readable(handle: int) -> bool:
    """Wait for a process to end; return whether it did."""
    return bool(select.select([handle], [], [], END_SECONDS)[0])
