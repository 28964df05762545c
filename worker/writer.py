"""One thread that writes for all episode threads of a worker: what waits while a batch is under way is the next batch.

So a busy worker pays for few transactions, and an idle one waits for nobody.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, overload

from services.core.errors import DatabaseUnavailable
from services.core.ids import CallId
from services.storage import batch
from services.storage.engine import Connection, Database
from services.storage.operations import Claim, Keep, Operation, Recall, Reserve, Result, Score, Settle
from services.storage.records import Answer, ClaimedEpisode
from services.telemetry.logs import Log
from worker.outages import FIRST_PAUSE_SECONDS, through_outage

LARGEST_BATCH = 128
STOP_SECONDS = 5.0

Apply = Callable[[Connection, Sequence[Operation]], list[Result]]


class Pending:
    """An operation on its way."""

    __slots__ = ("_answered", "_outcome", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._outcome: Result | BaseException = None
        self._answered = threading.Lock()  # the cheapest thing that one thread waits on and another one opens
        self._answered.acquire()

    def answer(self, outcome: Result | BaseException) -> None:
        self._outcome = outcome
        self._answered.release()

    def result(self) -> Any:
        """Wait for the result; raise the operation's error in the thread that asked for it."""
        with self._answered:
            outcome = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class Writer:
    """Carries out operations in batches, in the order they were asked for.

    While the database is away a batch is repeated, which its operations allow, until the leases must be gone. An error
    that is not the database's absence fails only the operation that causes it.

    Args:
        database: used by the writer's thread alone; one connection is enough.
        lease_seconds: for how long a batch is repeated.
        log: told about outages and failures.
        apply: carries out a batch within a transaction.
        largest: operations of one batch.
    """

    def __init__(
        self,
        database: Database,
        lease_seconds: float,
        log: Log,
        *,
        apply: Apply = batch.apply,
        largest: int = LARGEST_BATCH,
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._log = log
        self._apply = apply
        self._largest = largest
        self._waiting: deque[Pending] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more; try once what waits. A try that hangs is left behind after a while."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(STOP_SECONDS)

    @overload
    def do(self, operation: Claim) -> ClaimedEpisode | None: ...
    @overload
    def do(self, operation: Reserve) -> CallId: ...
    @overload
    def do(self, operation: Settle) -> bool: ...
    @overload
    def do(self, operation: Score) -> None: ...
    @overload
    def do(self, operation: Recall) -> Answer | None: ...
    @overload
    def do(self, operation: Keep) -> Answer: ...
    def do(self, operation: Operation) -> Any:
        """Carry out an operation and return its result.

        Raises:
            TrinityError: the operation's own, see ``services.storage.operations``.
            DatabaseUnavailable: the database stayed away until the lease must be gone, or the writer has stopped.
        """
        return self.post(operation).result()

    def post(self, operation: Operation) -> Pending:
        """Ask for an operation without waiting. It is answered no later than what the same thread asks for next."""
        pending = Pending(operation)
        with self._changed:
            if self._stopped.is_set():
                raise DatabaseUnavailable("the worker is stopping", "its episodes are handed back")
            self._waiting.append(pending)
            self._changed.notify()
        return pending

    def _run(self) -> None:
        while taken := self._take():
            with suppress(Exception):  # by then all are answered: a log that cannot be written must not end this thread
                self._carry_out(taken)

    def _take(self) -> list[Pending]:
        """Wait for operations; nothing comes any more once the writer has stopped."""
        with self._changed:
            while not self._waiting and not self._stopped.is_set():
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), self._largest))]

    def _carry_out(self, taken: Sequence[Pending]) -> None:
        until = time.monotonic() + self._lease_seconds
        try:
            self._answer(taken, until)
        except DatabaseUnavailable as error:
            for pending in taken:
                pending.answer(DatabaseUnavailable(error.what, error.cure))  # one each: threads share no exception
            self._log.warning("the database stayed away", operations=len(taken), reason=str(error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever asked for it
            if len(taken) == 1:
                taken[0].answer(error)
                return
            for pending in taken:
                self._alone(pending, until)
            self._log.error("a batch failed, each operation was tried alone", reason=f"{type(error).__name__}: {error}")

    def _alone(self, pending: Pending, until: float) -> None:
        try:
            self._answer([pending], until)
        except BaseException as error:  # noqa: BLE001 - as above
            pending.answer(error)

    def _answer(self, taken: Sequence[Pending], until: float) -> None:
        operations = [pending.operation for pending in taken]
        results = through_outage(lambda: self._transact(operations), until, self._pause)
        for pending, result in list(zip(taken, results, strict=True)):
            pending.answer(result)

    def _transact(self, operations: Sequence[Operation]) -> list[Result]:
        with self._database.transaction() as conn:
            return self._apply(conn, operations)

    def _pause(self, seconds: float) -> bool:
        if seconds == FIRST_PAUSE_SECONDS:
            self._log.warning("the database is away, episodes wait")
        return self._stopped.wait(seconds)
