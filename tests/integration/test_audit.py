"""The audit bites: whatever is broken by hand is found, under the invariant that it breaks and no other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from services.config.document import from_json
from services.core.errors import SpecError
from services.storage.audit import INVARIANTS, Patience, audit
from services.storage.audit.inspection import judge, read
from services.storage.engine import Database
from tests.support.auditing import assert_clean, broken, findings
from tests.support.breaks import BREAKS, DONE
from tests.support.postgres import execute, in_database
from tests.support.storage import query
from tests.support.story import tell_story


@pytest.fixture(scope="module")
def story(postgres_url: str, template: str) -> Iterator[Database]:
    """A database in which the story has happened; every test leaves it as it was."""
    name = f"story_{uuid4().hex[:12]}"
    execute(postgres_url, f"create database {name} template {template} strategy file_copy")
    database = Database(in_database(postgres_url, name), application_name="trinity-test")
    tell_story(database)
    yield database
    database.close()
    execute(postgres_url, f"drop database {name} with (force)")


def found_after(database: Database, statements: str, name: str | None = None) -> set[str]:
    """Return the invariants found broken after some statements, which are undone."""
    with database.transaction() as conn:
        driver = conn.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert driver.execute(statements.encode()).rowcount != 0, "the statements changed nothing"
        judges = read(conn, from_json, name=name)
        conn.rollback()
    return set(broken(judge(judges)))


def test_a_database_with_losses_failures_pauses_forks_and_cancellations_is_clean(story: Database) -> None:
    assert_clean(story)


def test_an_empty_database_is_clean(database: Database) -> None:
    assert_clean(database)


@pytest.mark.parametrize(("invariant", "what", "statements"), BREAKS, ids=[f"{i} {what}" for i, what, _ in BREAKS])
def test_what_is_broken_by_hand_is_found(story: Database, invariant: str, what: str, statements: str) -> None:
    assert found_after(story, statements) == {invariant}


def test_a_session_idle_in_a_transaction_is_found(story: Database, database: Database) -> None:
    with database.transaction() as conn:
        query(conn, "select 1")
        time.sleep(0.1)
        assert set(findings(database, Patience(idle=0.05))) == {"I13"}
        assert findings(database) == {}
        assert findings(story, Patience(idle=0.05)) == {}, "it is another database's"


def test_every_invariant_has_a_break() -> None:
    assert {invariant.id for invariant in INVARIANTS} == {invariant for invariant, _, _ in BREAKS} | {"I13"}


def test_one_campaign_is_audited_alone(story: Database) -> None:
    off_by_one = f"update campaign set tokens_charged = tokens_charged + 1 where id = {DONE}"
    assert found_after(story, off_by_one, "fork") == set()
    assert found_after(story, off_by_one, "done") == {"I3"}
    with pytest.raises(SpecError, match="nobody"):
        audit(story, from_json, name="nobody")
