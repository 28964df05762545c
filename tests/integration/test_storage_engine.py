from __future__ import annotations

import itertools

import pytest

from services.core.errors import DatabaseUnavailable, PrerequisiteMissing, SpecError
from services.storage import episodes, events, leadership
from services.storage.engine import Connection, Database
from services.storage.nesting import atomic
from tests.support.postgres import execute
from tests.support.storage import query, scene
from tests.support.threads import at_once


def cut(url: str, condition: str) -> None:
    execute(
        url,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        f" where datname = current_database() and pid <> pg_backend_pid() and {condition}",
    )


def test_a_listener_hears_and_drains(database: Database) -> None:
    made = scene(database)
    with database.listen() as listener:
        assert listener.wait(5)
        assert not listener.wait(0.01)
        for _ in range(3):
            with database.transaction() as conn:
                events.notify(conn, made.campaign)
        assert listener.wait(5)
        heard_more = itertools.takewhile(bool, (listener.wait(0.5) for _ in itertools.count()))
        assert len(list(heard_more)) < 3  # a notice may arrive after the first look, none is heard twice


def test_a_listener_comes_back_after_its_connection_died(database: Database, database_url: str) -> None:
    made = scene(database)
    with database.listen() as listener:
        assert listener.wait(5)
        cut(database_url, "query like 'LISTEN%'")
        assert any(listener.wait(0.2) for _ in range(50))
        with database.transaction() as conn:
            events.notify(conn, made.campaign)
        assert listener.wait(5)


def test_one_leader_at_a_time(database: Database, database_url: str) -> None:
    with database.leadership() as first, database.leadership() as second:
        assert first.try_acquire()
        assert first.try_acquire()
        assert not second.try_acquire()
        assert not second.held()
        first.close()
        assert second.try_acquire()
        cut(database_url, "query like '%advisory%' or query = 'select 1'")
        assert not second.held()
        assert first.try_acquire()


def test_leaving_by_an_exception_lets_the_next_leader_in(database: Database) -> None:
    def go_wrong() -> None:
        with database.leadership() as first:
            assert first.try_acquire()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    with database.leadership() as second:
        assert second.try_acquire()


def test_every_leader_has_a_higher_epoch(database: Database) -> None:
    def take(_: int) -> int:
        with database.transaction() as conn:
            return leadership.take_office(conn)

    assert sorted(at_once(8, take)) == list(range(1, 9))


def test_a_cut_connection_is_an_error_of_ours_and_the_pool_recovers(database: Database, database_url: str) -> None:
    def be_cut() -> None:
        with database.transaction() as conn:
            cut(database_url, "true")
            query(conn, "select 1")

    with pytest.raises(DatabaseUnavailable, match=r"manage\.py up"):
        be_cut()
    with database.transaction() as conn:
        assert query(conn, "select 1") == [(1,)]


def begin_on_a_cut_connection(conn: Connection, url: str) -> None:
    cut(url, "application_name = 'trinity-test'")
    with atomic(conn):
        raise AssertionError("the connection was to be cut")


def test_a_connection_cut_before_an_atomic_block_is_an_error_of_ours_too(database: Database, database_url: str) -> None:
    with pytest.raises(DatabaseUnavailable), database.statement() as conn:
        begin_on_a_cut_connection(conn, database_url)
    with database.statement() as conn:
        assert conn.exec_driver_sql("select 1").scalar_one() == 1


def test_more_threads_than_connections_wait_their_turn(database_url: str) -> None:
    small = Database(database_url, application_name="small", pool_size=2)

    def ask(_: int) -> object:
        with small.transaction() as conn:
            return query(conn, "select pg_sleep(0.01)")

    assert len(at_once(32, ask)) == 32
    small.close()


def test_an_exception_undoes_the_transaction(database: Database) -> None:
    made = scene(database)

    def go_wrong() -> None:
        with database.transaction() as conn:
            episodes.claim(conn, made.episodes[0], "w", 60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    assert made.claim(0).attempt == 1


def test_no_statement_leaves_a_transaction_open(database: Database) -> None:
    made = scene(database)
    with database.statement() as conn:
        episodes.claim(conn, made.episodes[0], "w", 60)
        with database.transaction() as other:
            states = query(other, "select state from pg_stat_activity where datname = current_database()")
            assert ("idle in transaction",) not in states
            assert ("idle",) in states


def test_an_unreachable_database_is_named_without_its_password() -> None:
    nobody = Database("postgres://user:s3cret@127.0.0.1:1/none", application_name="t")
    with pytest.raises(PrerequisiteMissing) as caught, nobody.transaction():
        pass
    assert "127.0.0.1:1/none" in str(caught.value)
    assert "manage.py up" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with nobody.leadership() as lock:
        assert not lock.try_acquire()
    with nobody.listen() as listener:
        assert not listener.wait(0.01)


@pytest.mark.parametrize("url", ["mysql://a:s3cret@b/c", "nonsense s3cret", "", "postgresql://h:port-s3cret/x"])
def test_other_urls_are_refused_without_showing_them(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        Database(url, application_name="t")
    assert "s3cret" not in str(caught.value)
