from __future__ import annotations

import threading

import pytest

from services.core.errors import DatabaseUnavailable, LeadershipLost
from services.storage import leadership
from services.storage.engine import Database
from tests.support.storage import query
from tests.support.waiting import wait_for


def take_office(database: Database, holder: str = "") -> int:
    with database.transaction() as conn:
        return leadership.take_office(conn, holder)


def end_frozen(database: Database, silence_seconds: float) -> int:
    with database.transaction() as conn:
        return leadership.end_frozen(conn, silence_seconds)


def test_the_leader_is_named_and_shows_that_it_lives(database: Database) -> None:
    epoch = take_office(database, "machine:17")
    with database.transaction() as conn:
        query(conn, "update leader set beat_at = now() - interval '1 hour'")
    with database.transaction() as conn:
        leadership.beat(conn, epoch)
        assert query(conn, "select holder, beat_at > now() - interval '1 minute' from leader") == [("machine:17", True)]


def test_a_deposed_leader_shows_no_sign_of_life(database: Database) -> None:
    old = take_office(database)
    take_office(database)
    with pytest.raises(LeadershipLost), database.transaction() as conn:
        leadership.beat(conn, old)


def test_a_sign_of_life_does_not_wait_for_the_leaders_own_turn(database: Database) -> None:
    epoch = take_office(database)
    with database.transaction() as turn, database.transaction() as sweep:
        leadership.require(turn, epoch)
        query(sweep, "set local lock_timeout = '1s'")
        leadership.beat(sweep, epoch)


def test_taking_office_waits_for_the_open_transactions_of_the_leader_before(database: Database) -> None:
    epoch = take_office(database)

    def try_to_take_office() -> None:
        with database.transaction() as conn:
            query(conn, "set local lock_timeout = '200ms'")
            leadership.take_office(conn)

    with database.transaction() as turn:
        leadership.require(turn, epoch)
        with pytest.raises(DatabaseUnavailable):
            try_to_take_office()
    assert take_office(database) == epoch + 1


def test_a_leader_that_shows_signs_of_life_keeps_its_sessions(database: Database) -> None:
    with database.leadership() as lock:
        assert lock.try_acquire()
        take_office(database)
        assert end_frozen(database, 10.0) == 0
        assert lock.held()


def test_a_silent_leader_loses_its_lock_and_its_open_transaction(database: Database) -> None:
    with database.leadership() as frozen, database.leadership() as standby:
        assert frozen.try_acquire()
        epoch = take_office(database)
        frozen_turn, go_on, errors = threading.Event(), threading.Event(), list[Exception]()

        def turn() -> None:
            try:
                with database.transaction() as conn:
                    leadership.require(conn, epoch)
                    frozen_turn.set()
                    go_on.wait(20)
                    query(conn, "update campaign set name = name")
            except DatabaseUnavailable as error:
                errors.append(error)

        thread = threading.Thread(target=turn)
        thread.start()
        assert frozen_turn.wait(5)
        assert not standby.try_acquire()
        assert end_frozen(database, 0.0) == 2
        assert wait_for(standby.try_acquire, seconds=5, what="the lock")
        assert take_office(database) == epoch + 1
        go_on.set()
        thread.join(20)
        assert len(errors) == 1
        assert not frozen.held()
