"""Incidents that others had with Postgres under a queue, done to this product; numbers are those of docs/incidents.md.

TRINITY_TEST_FULL=1 runs the long variants.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from services.core.errors import DatabaseUnavailable
from services.core.states import CampaignState
from services.storage import campaign_states, leadership, leases, schema
from services.storage.engine import Database
from tests.support.campaigns import submit
from tests.support.crew import Crew
from tests.support.incidents import FULL, Stage, campaign, scheduling_quickly, slow
from tests.support.scheduling import record
from tests.support.storage import scene
from tests.support.waiting import wait_for


@pytest.fixture
def stage(database: Database, database_url: str, broker_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A campaign with a scheduler, on a database of its own."""
    campaign_id = submit(database, campaign())
    with Crew(tmp_path, database_url, broker_url) as crew, scheduling_quickly(database_url, broker_url):
        yield Stage(database, crew, broker_url, campaign_id)


def admin(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


@contextmanager
def reading_everything(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold what pg_dump holds: a read lock on every table, in one transaction."""
    with psycopg.connect(url) as dump:
        tables = dump.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        dump.execute(f"lock table {', '.join(name for (name,) in tables)} in access share mode".encode())
        yield dump


def test_30_a_server_with_few_connections_makes_everybody_wait(stage: Stage, database_url: str) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    with admin(database_url) as superuser:
        role = "few" + name[-8:]
        superuser.execute(f"create role {role} login superuser password 'few' connection limit -1".encode())
        superuser.execute(f"alter role {role} nosuperuser connection limit 6".encode())
        superuser.execute(f"grant all on all tables in schema public to {role}".encode())
        superuser.execute(f"grant all on all sequences in schema public to {role}".encode())
    _, _, place = database_url.rpartition("@")
    limited = f"postgresql://{role}:few@{place}"
    for _ in range(4 if FULL else 2):
        stage.crew.worker("--slots", "64" if FULL else "16", TRINITY_DATABASE_URL=limited)
    stage.completes()
    with admin(database_url) as superuser:
        superuser.execute(f"drop owned by {role}".encode())
        superuser.execute(f"drop role {role}".encode())


def test_32_no_transaction_is_open_while_a_model_is_asked(stage: Stage, database_url: str) -> None:
    stage.crew.worker("--slots", "8", "--latency-ms", "30000" if FULL else "1500")
    stage.until("llm_call where state = 'open'", 8)
    open_for = (
        "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'"
    )
    longest = 0.0
    with admin(database_url) as watcher:
        for _ in range(20):
            (seconds,) = watcher.execute(open_for.encode()).fetchone() or (0.0,)
            longest = max(longest, seconds)
            time.sleep(0.05)
    assert longest < 1.0
    stage.completes(seconds=400)


def test_33_a_transaction_left_open_by_hand_makes_an_upgrade_fail_fast(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "TRIES", 3)
    with psycopg.connect(database_url) as forgotten:
        forgotten.execute("select count(*) from campaign")
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match=r"the tables stayed locked .*stop what uses them"):
            schema.downgrade(database_url, "0001")
        assert time.monotonic() - began < 10
    schema.downgrade(database_url, "0001")
    schema.upgrade(database_url)


class Traffic:
    """Locks rows as schedulers and workers do, leader, campaign, episode, until the end of the block."""

    STATEMENTS = (
        "select epoch from leader where id = 1 for share",
        "select id from campaign order by id for no key update",
        "select id from episode order by id limit 1 for no key update",
    )

    def __init__(self, url: str, threads: int = 3) -> None:
        self.longest = 0.0
        self.rounds = 0
        self.errors: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=20)

    def _run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stop.wait(0.005):
                began = time.monotonic()
                try:
                    with connection.transaction():
                        for statement in self.STATEMENTS:
                            connection.execute(statement.encode())
                except psycopg.OperationalError as error:
                    self.errors.append(type(error).__name__)
                self.longest = max(self.longest, time.monotonic() - began)
                self.rounds += 1


def test_34_an_upgrade_waits_for_a_dump_without_stopping_the_work(database: Database, database_url: str) -> None:
    scene(database)
    schema.downgrade(database_url, "0001")
    with Traffic(database_url) as traffic:
        with reading_everything(database_url):
            upgrading = threading.Thread(target=schema.upgrade, args=(database_url,), daemon=True)
            upgrading.start()
            time.sleep(10 if FULL else 3)
            assert upgrading.is_alive()
        upgrading.join(timeout=20)
        assert not upgrading.is_alive()
    assert traffic.errors == []
    assert traffic.rounds > 20
    assert traffic.longest < 1.5
    with database.transaction() as conn:
        schema.check(conn)


def test_35_upgrades_in_a_loop_never_make_work_fail(database: Database, database_url: str) -> None:
    scene(database)
    with Traffic(database_url) as traffic:
        for _ in range(30 if FULL else 3):
            schema.downgrade(database_url, "0001")
            schema.upgrade(database_url)
    assert traffic.errors == []
    assert traffic.rounds > 20


def test_37_a_leader_that_dies_in_its_sweep_leaves_the_sweep_to_the_next(database: Database, database_url: str) -> None:
    at = scene(database)
    at.claim(0, lease_seconds=0.0)
    dying = Database(database_url, application_name="dying leader", pool_size=1)

    def sweep() -> None:
        with dying.transaction() as conn:
            assert leases.expire(conn, epoch=at.epoch) == 1
            with admin(database_url) as superuser:
                superuser.execute(
                    b"select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'dying leader'"
                )

    with pytest.raises(DatabaseUnavailable):
        sweep()
    dying.close()
    with database.transaction() as conn:
        epoch = leadership.take_office(conn)
        assert leases.expire(conn, epoch=epoch) == 1
    with database.transaction() as conn:
        assert leases.expire(conn, epoch=epoch) == 0


def test_46_a_long_night_without_anybody_costs_no_attempt(
    database: Database, database_url: str, broker_url: str, tmp_path: Path
) -> None:
    campaign_id = submit(database, campaign())
    with scheduling_quickly(database_url, broker_url):
        wait_for(lambda: record(database, campaign_id).state is CampaignState.RUNNING, seconds=60, what="the start")
        at = Stage(database, Crew(tmp_path, database_url, broker_url), broker_url, campaign_id)
        at.until("episode where state = 'queued'", 12)
    age = timedelta(days=3)
    with database.transaction() as conn:
        conn.exec_driver_sql(f"update episode set available_at = available_at - '{age.days} days'::interval")
        conn.exec_driver_sql(f"update episode set published_at = published_at - '{age.days} days'::interval")
        conn.exec_driver_sql(f"update leader set beat_at = beat_at - '{age.days} days'::interval")
    with at.crew, scheduling_quickly(database_url, broker_url):
        at.crew.worker("--slots", "4")
        at.completes()
        assert at.ask("select max(attempt) from episode") == 1


def test_47_a_campaign_cancelled_while_its_workers_die_is_over_at_once(stage: Stage) -> None:
    worker = stage.crew.worker("--slots", "4", "--latency-ms", "60000")
    stage.until("llm_call where state = 'open'", 4)
    with stage.database.transaction() as conn:
        campaign_states.cancel(conn, stage.campaign_id, "by hand")
    worker.kill()
    assert record(stage.database, stage.campaign_id).state is CampaignState.CANCELLED
    assert stage.count("episode where state not in ('cancelled', 'scored')") == 0
    assert stage.count("attempt where outcome = 'running'") == 0


def test_53_time_zones_of_the_server_and_of_a_worker_change_nothing(
    database: Database, database_url: str, broker_url: str, tmp_path: Path
) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    with admin(database_url) as superuser:
        superuser.execute(f"alter database {name} set timezone to 'Pacific/Kiritimati'".encode())
    campaign_id = submit(database, campaign())
    with Crew(tmp_path, database_url, broker_url) as crew, scheduling_quickly(database_url, broker_url):
        at = Stage(database, crew, broker_url, campaign_id)
        crew.worker("--slots", "4", TZ="America/St_Johns")
        at.completes()
        assert at.ask("select max(attempt) from episode") == 1
    spent = record(database, campaign_id).running_seconds
    assert 0 < spent < 120


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")
@pytest.mark.parametrize("shift", ["+20m", pytest.param("-20m", marks=slow)])
def test_52_a_worker_whose_clock_is_wrong_loses_nothing(stage: Stage, shift: str) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        pytest.skip("libfaketime is not installed")
    stage.crew.worker("--slots", "2", LD_PRELOAD=str(library), FAKETIME=shift, DONT_FAKE_MONOTONIC="1")
    stage.completes()
    assert stage.ask("select max(attempt) from episode") == 1
