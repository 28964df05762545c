"""What scorers need from outside: symbolic mathematics, and a place where hostile programs may run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Equivalence(Protocol):
    """Compares mathematical expressions symbolically, in processes of its own. Safe to call from many threads."""

    @property
    def name(self) -> str:
        """What compares, with its version; kept with each grade it decides."""
        ...

    def equal(self, reference: str, answer: str) -> bool | None:
        """Tell whether two LaTeX or plain expressions are the same object; None when one of them cannot be read, or
        their comparison used up its CPU time.

        Raises:
            GradingUnavailable: no verdict could be had for reasons that are not the answer's.
        """
        ...


class Ending(StrEnum):
    """How a sandboxed program ended."""

    EXITED = "exited"  # by itself; ``status`` is its exit status
    KILLED = "killed"  # by a signal nobody of ours sent; ``status`` is minus its number
    CPU_TIME = "cpu_time"
    WALL_TIME = "wall_time"
    MEMORY = "memory"
    OUTPUT = "output"


@dataclass(frozen=True)
class Limits:
    """What a program may use; the whole tree of its processes together where the backend can count it.

    Attributes:
        cpu_seconds: of processor time.
        wall_seconds: of real time from its first instruction, at an idle machine; the runner allows more under load.
        memory_bytes: resident.
        output_bytes: of standard output and of standard error, each.
    """

    cpu_seconds: float = 6.0
    wall_seconds: float = 12.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20


@dataclass(frozen=True)
class Job:
    """A Python program to run.

    Attributes:
        source: run as ``__main__`` by an isolated interpreter that sees its standard library and nothing of ours.
        stdin: what it reads; standard input ends after it.
        limits: what it may use.
    """

    source: str
    stdin: bytes = b""
    limits: Limits = Limits()


@dataclass(frozen=True)
class Execution:
    """A finished run.

    Attributes:
        ending: how it ended.
        status: exit status or minus the signal, None when it was ended for a limit or, a candidate, with its examiner.
        stdout: at most ``output_bytes``.
        stderr: likewise.
        wall_seconds: real time it took.
        cpu_seconds: processor time it took.
    """

    ending: Ending
    status: int | None
    stdout: bytes
    stderr: bytes
    wall_seconds: float
    cpu_seconds: float


class CodeRunner(Protocol):
    """Runs untrusted programs. Safe to call from many threads; waiting for a free place counts for no limit."""

    @property
    def name(self) -> str:
        """Backend, its version, and the hash of the self-test it passed; kept with each grade."""
        ...

    def run(self, job: Job) -> Execution:
        """Run one program to its end.

        Raises:
            GradingUnavailable: it could not be run for reasons that are not the program's.
        """
        ...

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        """Run two programs apart from each other, joined by two pipes: what one writes to file descriptor 3 the other
        reads from descriptor 4. The examiner's end ends both. Returns (examiner's, candidate's) execution.

        Raises:
            GradingUnavailable: as for ``run``.
        """
        ...
