"""The writer thread: grouping, order, and whom an error reaches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from services.core.errors import DatabaseUnavailable, LeaseLost
from services.storage.engine import Connection
from services.storage.operations import Operation, Result
from tests.support.threads import at_once
from tests.support.waiting import wait_for
from tests.support.writing import Carrier, NoDatabase, claiming, writer_of
from worker.writer import Writer


class Held(Carrier):
    """Waits at the first batch until it is let go."""

    def __init__(self, **changes: object) -> None:
        super().__init__(**changes)  # type: ignore[arg-type]
        self.entered, self.gate = threading.Event(), threading.Event()

    def __call__(self, conn: Connection, operations: Sequence[Operation]) -> list[Result]:
        self.entered.set()
        assert self.gate.wait(30)
        return super().__call__(conn, operations)


def ask(writer: Writer, number: int) -> object:
    return writer.do(claiming(number))


def test_an_idle_writer_carries_out_one_operation_at_once() -> None:
    carrier = Carrier()
    with writer_of(NoDatabase(), carrier) as writer:
        assert [ask(writer, number) for number in (7, 8)] == [7, 8]
    assert carrier.batches == [[7], [8]]


def test_what_waits_while_a_batch_is_under_way_is_the_next_batch_in_the_order_it_was_asked_for() -> None:
    carrier = Held()
    with writer_of(NoDatabase(), carrier, largest=3) as writer:
        first = writer.post(claiming(0))
        assert carrier.entered.wait(30)
        later = [writer.post(claiming(number)) for number in range(1, 6)]
        carrier.gate.set()
        assert [pending.result() for pending in [first, *later]] == list(range(6))
    assert carrier.batches == [[0], [1, 2, 3], [4, 5]]


def test_many_threads_each_get_their_own_result() -> None:
    with writer_of(NoDatabase(), Carrier()) as writer:

        def fifty(number: int) -> list[object]:
            return [ask(writer, 1000 * number + turn) for turn in range(1, 51)]

        assert at_once(16, fifty) == [[1000 * number + turn for turn in range(1, 51)] for number in range(16)]


def test_an_operation_that_is_refused_raises_in_its_own_thread_alone() -> None:
    carrier = Held(refused={2: LeaseLost(2, 1)})
    with writer_of(NoDatabase(), carrier) as writer:
        pending = [writer.post(claiming(number)) for number in (1, 2, 3)]
        carrier.gate.set()
        assert pending[0].result() == 1
        with pytest.raises(LeaseLost):
            pending[1].result()
        assert pending[2].result() == 3


def test_an_operation_that_breaks_its_batch_fails_alone() -> None:
    carrier = Held(poison=frozenset({2}))
    with writer_of(NoDatabase(), carrier) as writer:
        first = writer.post(claiming(9))
        assert carrier.entered.wait(30)
        pending = [writer.post(claiming(number)) for number in (1, 2, 3)]
        carrier.gate.set()
        assert [first.result(), pending[0].result(), pending[2].result()] == [9, 1, 3]
        with pytest.raises(ValueError, match="poison"):
            pending[1].result()
    assert carrier.batches == [[9], [1, 2, 3], [1], [2], [3]]


def test_even_an_error_that_ends_processes_does_not_end_the_writer() -> None:
    def leaves(conn: Connection, operations: Sequence[Operation]) -> list[Result]:
        raise SystemExit(3)

    with writer_of(NoDatabase(), leaves) as writer:
        for _ in range(2):
            with pytest.raises(SystemExit):
                writer.do(claiming(1))


def test_a_batch_is_repeated_while_the_database_is_away() -> None:
    database, carrier = NoDatabase(away=2), Carrier()
    with writer_of(database, carrier) as writer:
        assert ask(writer, 5) == 5
    assert database.begun == 3
    assert carrier.batches == [[5]]


def test_after_as_long_as_a_lease_every_operation_fails_with_an_error_of_its_own() -> None:
    database = NoDatabase(away=10**6)
    with writer_of(database, Carrier(), lease_seconds=0.5) as writer:
        begun = time.monotonic()
        errors = at_once(3, lambda number: caught(lambda: writer.do(claiming(number + 1))))
        assert time.monotonic() - begun < 10
        assert all(isinstance(error, DatabaseUnavailable) for error in errors)
        assert len({id(error) for error in errors}) == 3
        database.away = 0
        assert ask(writer, 4) == 4, "it goes on once the database is back"


def caught(step: Callable[[], object]) -> BaseException | None:
    try:
        step()
    except BaseException as error:  # noqa: BLE001
        return error
    return None


def test_stopping_tries_once_what_waits_and_takes_nothing_more() -> None:
    database = NoDatabase(away=10**6)
    writer = writer_of(database, Carrier(), lease_seconds=3600)
    writer.start()
    pending = writer.post(claiming(1))
    wait_for(lambda: database.begun >= 2, seconds=10, what="the batch to be repeated")
    begun = time.monotonic()
    writer.stop()
    assert time.monotonic() - begun < 3
    with pytest.raises(DatabaseUnavailable):
        pending.result()
    with pytest.raises(DatabaseUnavailable, match="stopping"):
        writer.do(claiming(2))


def test_stopping_carries_out_what_waits() -> None:
    carrier = Held()
    writer = writer_of(NoDatabase(), carrier)
    writer.start()
    pending = [writer.post(claiming(number)) for number in (1, 2, 3)]
    assert carrier.entered.wait(30)
    carrier.gate.set()
    writer.stop()
    assert [each.result() for each in pending] == [1, 2, 3]
