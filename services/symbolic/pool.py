"""A pool of child processes that compares expressions for any number of threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from importlib.metadata import version
from importlib.util import find_spec
from queue import LifoQueue
from types import TracebackType

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.symbolic.process import Child, Lost, Reply, UsedUp

_REMEMBERED = 4096
_TRIES = 2
_LONGEST = 10_000


class SymbolicPool:
    """Compares expressions by math-verify in processes of its own; implements ``Equivalence``.

    Safe to call from many threads. Waiting for a free process counts for no limit. A question that uses up its limits
    costs the process it ran in, and no other question. Processes start when they are first needed; ``close`` ends them,
    and a parent that dies takes them along, since they end with their standard input.

    Args:
        processes: at most so many at once.
        cpu_seconds: of CPU time for one question, so that a loaded machine changes no verdict.
        wall_seconds: after which a process that stands still is given up.
        memory_bytes: of address space for each process.

    Raises:
        PrerequisiteMissing: math-verify is not installed.
    """

    def __init__(
        self,
        processes: int | None = None,
        *,
        cpu_seconds: float = 3.0,
        wall_seconds: float = 120.0,
        memory_bytes: int = 1 << 30,
    ) -> None:
        if find_spec("math_verify") is None:
            raise PrerequisiteMissing(
                "comparing expressions needs math-verify",
                "`pip install -c constraints.txt -e '.[worker]'`",
            )
        count = processes or min(4, os.cpu_count() or 1)
        self._limits = (cpu_seconds, wall_seconds, memory_bytes)
        self._places: LifoQueue[Child | None] = LifoQueue()  # the one used last is warm
        for _ in range(count):
            self._places.put(None)
        self._count = count
        self._closed = False
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Reply] = OrderedDict()

    @property
    def name(self) -> str:
        return f"math-verify {version('math-verify')}"

    def equal(self, reference: str, answer: str) -> bool | None:
        """Tell whether two LaTeX or plain expressions are the same object; None when that cannot be told within the
        limits, or one of them cannot be read.

        Raises:
            GradingUnavailable: two processes in turn were lost.
        """
        if len(reference) + len(answer) > _LONGEST:
            return None
        key = (reference, answer)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known.equal
        reply = self._ask(reference, answer)
        with self._lock:
            self._known[key] = reply
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return reply.equal

    def close(self) -> None:
        """End the processes once their questions are answered. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in range(self._count):
            child = self._places.get()
            if child is not None:
                child.end()
        for _ in range(self._count):
            self._places.put(None)  # lets waiting threads find out

    def __enter__(self) -> SymbolicPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, reference: str, answer: str) -> Reply:
        losses: list[str] = []
        for _ in range(_TRIES):
            child = self._places.get()
            if self._closed:
                self._places.put(child)
                raise GradingUnavailable("the pool of symbolic processes is closed")
            try:
                child = child or Child(*self._limits)
                reply = child.ask(reference, answer)
                if reply.peak > self._limits[2] // 2:
                    child = self._end(child)  # the next question shall not pay for this one's memory
                return reply
            except UsedUp as error:
                child = self._end(child)
                return Reply(None, str(error), 0)
            except (Lost, OSError) as error:
                child = self._end(child)
                losses.append(str(error))
            except BaseException:
                child = self._end(child)  # interrupted before the answer: the next question would get it
                raise
            finally:
                self._places.put(child)
        raise GradingUnavailable(f"comparing two expressions lost {_TRIES} processes in turn: {'; '.join(losses)}")

    @staticmethod
    def _end(child: Child | None) -> Child | None:
        if child is not None:
            child.end()
        return None
