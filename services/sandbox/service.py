"""Running programs and examinations, a few at a time, and repeating alone what ran out of real time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.core.errors import GradingUnavailable
from services.core.scoring.ports import Ending, Execution, Job
from services.sandbox.backend import CHANNEL_READ, CHANNEL_WRITE, Backend
from services.sandbox.supervise import execute

BROKEN_SANDBOX = b"bwrap: "
SOUND = Job("print('sound')")


class Places:
    """How many programs run at once. One that shall run alone waits for all others and holds back new ones."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running = 0
        self._waiting_alone = 0
        self._changed = threading.Condition()

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._taken(1, lambda: self._running < self._count and not self._waiting_alone):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting_alone += 1
        try:
            with self._taken(self._count, lambda: self._running == 0):
                yield
        finally:
            with self._changed:
                self._waiting_alone -= 1
                self._changed.notify_all()

    @contextmanager
    def _taken(self, places: int, free: Callable[[], bool]) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(free)
            self._running += places
        try:
            yield
        finally:
            with self._changed:
                self._running -= places
                self._changed.notify_all()


class Service:
    """Runs what is asked for; safe to call from many threads."""

    def __init__(self, backend: Backend, places: int) -> None:
        self._backend = backend
        self._places = Places(places)
        self._stopping = os.eventfd(0, os.EFD_CLOEXEC)

    def stop(self) -> None:
        """End every program, now and from now on."""
        os.eventfd_write(self._stopping, 1)

    def run(self, job: Job) -> list[Execution]:
        """Run one program.

        Raises:
            GradingUnavailable: the sandbox failed.
        """
        return self._twice_if_slow(lambda: [execute(self._backend, job, halts=[self._stopping])])

    def examine(self, examiner: Job, candidate: Job) -> list[Execution]:
        """Run two programs that are joined by two pipes; the examiner's end ends both.

        Raises:
            GradingUnavailable: a sandbox failed.
        """
        return self._twice_if_slow(lambda: self._joined(examiner, candidate))

    def _twice_if_slow(self, attempt: Callable[[], list[Execution]]) -> list[Execution]:
        with self._places.shared():
            done = attempt()
        if any(each.ending is Ending.WALL_TIME for each in done):
            with self._places.alone():
                done = attempt()
        if any(each.stderr.startswith(BROKEN_SANDBOX) for each in done):
            self._must_be_sound()
        return done

    def _must_be_sound(self) -> None:
        """Find out whether a sandbox failed after it was made, or a program only says so.

        Raises:
            GradingUnavailable: it is the sandbox.
        """
        done = execute(self._backend, SOUND, halts=[self._stopping])
        if done.stdout.strip() != b"sound":
            raise GradingUnavailable(f"the sandbox failed: {done.stderr[:300].decode(errors='replace').strip()}")

    def _joined(self, examiner: Job, candidate: Job) -> list[Execution]:
        examined, asks = os.pipe()
        answered, answers = os.pipe()
        over = os.eventfd(0, os.EFD_CLOEXEC)
        second = Thread(
            lambda: execute(
                self._backend,
                candidate,
                channel={CHANNEL_WRITE: answers, CHANNEL_READ: examined},
                halts=[over, self._stopping],
            )
        )
        try:
            first = execute(
                self._backend,
                examiner,
                channel={CHANNEL_WRITE: asks, CHANNEL_READ: answered},
                halts=[self._stopping],
            )
        finally:
            os.eventfd_write(over, 1)
            second.join()
            os.close(over)
        return [first, second.result()]


class Thread(threading.Thread):
    """A thread with a result."""

    def __init__(self, work: Callable[[], Execution]) -> None:
        super().__init__(name="candidate", daemon=True)
        self._work = work
        self._done: Execution | None = None
        self._error: BaseException = GradingUnavailable("a program was not run")
        self.start()

    def run(self) -> None:
        try:
            self._done = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            self._error = error

    def result(self) -> Execution:
        if self._done is None:
            raise self._error
        return self._done
