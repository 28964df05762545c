"""Databases that a release left behind: brought up to date with everything in them, and refused by other versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.queue import messages
from services.storage import campaign_states, campaigns, schema
from services.storage.engine import Database
from tests.migrations.test_schema import catalog
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign, submit
from tests.support.crew import Crew
from tests.support.player import Player
from tests.support.scheduling import scheduling, wait_for_state

# One dump a release, by pg_dump --inserts, of a database with campaigns in every state.
RELEASES = sorted(Path(__file__).with_name("data").glob("*.sql"))
TABLES = """
select table_name from information_schema.tables
where table_schema = 'public' and table_name <> 'alembic_version' order by 1
"""
FIRST = RELEASES[0]
ROUNDING = "26baf38c2aad"
MORE = {"out_of_money": Decimal(1)}

Content = dict[str, list[dict[str, Any]]]


def restore(url: str, dump: Path) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(dump.read_bytes())


def content(url: str) -> Content:
    """Return every row of every table."""
    with psycopg.connect(url) as connection:
        tables = [name for (name,) in connection.execute(TABLES.encode()).fetchall()]
        # A leader's sign of life is made anew by every upgrade.
        rows = "select to_jsonb(t) - 'beat_at' from"
        found = {
            name: [row for (row,) in connection.execute(f'{rows} "{name}" t'.encode()).fetchall()] for name in tables
        }
    return {name: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)) for name, rows in found.items()}


def only_columns_of(before: Content, after: Content) -> Content:
    """Leave out tables and columns that are new."""
    return {
        name: [{column: row[column] for column in rows[0]} for row in after[name]] if rows else after[name]
        for name, rows in before.items()
    }


def said_as_before(after: Content) -> Content:
    """Write a used-up budget as the first release did."""
    for row in after["campaign"]:
        if row["state"] == "budget_exhausted":
            row |= {"state": "paused", "stop_reason": f"budget_exhausted: {row['stop_reason']}"}
    return {name: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)) for name, rows in after.items()}


@pytest.fixture(params=RELEASES, ids=[path.stem for path in RELEASES])
def released(request: pytest.FixtureRequest, empty_database_url: str) -> str:
    """A database as the release left it."""
    restore(empty_database_url, request.param)
    return empty_database_url


@pytest.fixture
def upgraded(released: str) -> Iterator[Database]:
    schema.upgrade(released)
    database = Database(released, application_name="upgraded")
    yield database
    database.close()


def by_name(database: Database) -> dict[str, CampaignState]:
    with database.transaction() as conn:
        return {record.name: record.state for record in campaigns.list_all(conn)}


def test_the_first_migration_still_builds_what_was_released(empty_database_url: str, database_url: str) -> None:
    restore(empty_database_url, FIRST)
    released = catalog(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(b"drop schema public cascade")
        connection.execute(b"create schema public")
    schema.upgrade(empty_database_url, FIRST.stem)
    assert catalog(empty_database_url) == released


def test_an_upgrade_keeps_everything(released: str) -> None:
    before = content(released)
    schema.upgrade(released)
    assert said_as_before(only_columns_of(before, content(released))) == before


def test_an_upgraded_database_has_the_schema_of_a_new_one(released: str, database_url: str) -> None:
    schema.upgrade(released)
    assert catalog(released) == catalog(database_url)


def test_down_and_up_again_changes_nothing(released: str) -> None:
    before = content(released)
    schema.upgrade(released)
    after = content(released)
    for _ in range(2):
        schema.downgrade(released, FIRST.stem)
        assert content(released) == before
        schema.upgrade(released)
        assert content(released) == after


def rounding() -> str:
    """Return a digest of how this processor rounds what the search computes: numpy chooses its kernels by it."""
    line = np.linspace(-3, 3, 997)
    results = np.exp(line), np.log(np.abs(line) + 0.1), (np.abs(line) + 0.1) ** 0.3, np.dot(line, line[::-1])
    return hashlib.sha256(b"".join(np.asarray(result).tobytes() for result in results)).hexdigest()[:12]


def test_a_scheduler_goes_on_where_the_release_stopped(upgraded: Database, released: str, broker_url: str) -> None:
    """The dump's search began on a processor with AVX2; one with AVX-512 refuses to replay it, as documented."""
    if rounding() != ROUNDING:
        pytest.skip("this processor rounds numpy's results otherwise than the one that the dump was made on")
    assert by_name(upgraded)["exhausted"] is CampaignState.BUDGET_EXHAUSTED
    with scheduling(released, broker_url), Player(upgraded):
        for name in ("running", "fork"):
            wait_for_state(upgraded, numbered(upgraded, name), CampaignState.COMPLETED)
        for name in ("exhausted", "out_of_money", "refused"):
            with upgraded.transaction() as conn:
                if name != "refused":
                    campaigns.add_budget(conn, numbered(upgraded, name), episodes=1000, usd=MORE.get(name, Decimal(0)))
                campaign_states.resume(conn, numbered(upgraded, name))
            wait_for_state(upgraded, numbered(upgraded, name), CampaignState.COMPLETED)
    assert_clean(upgraded)


def numbered(database: Database, name: str) -> CampaignId:
    with database.transaction() as conn:
        return campaigns.by_name(conn, name).id


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [("9999", "which is newer than this code"), (FIRST.stem, "run `manage.py db upgrade`")],
    ids=["newer", "older"],
)
def test_processes_refuse_another_schema_in_one_sentence(
    database_url: str, broker_url: str, tmp_path: Path, revision: str, sentence: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(f"update alembic_version set version_num = '{revision}'".encode())
    with Crew(tmp_path, database_url, broker_url) as crew:
        started = [crew.scheduler(), crew.worker()]
        for member in started:
            assert member.process.wait(timeout=120) == 1, member.log
            (line,) = member.log.strip().splitlines()
            assert sentence in line
            assert f"at {revision}" in line


def test_a_message_of_another_version_is_refused_and_its_episode_sent_again(
    database: Database, database_url: str, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = submit(database, small_campaign())
    with ExitStack() as stack:
        crew = stack.enter_context(Crew(tmp_path, database_url, broker_url))
        with monkeypatch.context() as other:
            # A scheduler of another version sends the first generation, then it is replaced.
            other.setattr(messages, "MESSAGE_VERSION", 9)
            with scheduling(database_url, broker_url):
                wait_for_state(database, campaign_id, CampaignState.RUNNING)
                crew_of_this_version = crew.worker("--slots", "4")
                crew_of_this_version.said("a message of version 9 arrived, this worker reads version 1", seconds=120)
        stack.enter_context(scheduling(database_url, broker_url))
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)
        assert "Traceback" not in crew_of_this_version.log
    with database.transaction() as conn:
        lost = conn.exec_driver_sql("select count(*) from attempt where outcome <> 'done'").scalar_one()
    assert lost == 0
    assert_clean(database)
