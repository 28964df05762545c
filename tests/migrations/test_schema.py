from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

import migrations
from services.core.errors import DatabaseUnavailable, PrerequisiteMissing
from services.storage import schema
from services.storage.engine import Database
from services.storage.tables import METADATA
from tests.support.threads import at_once

# What Postgres itself says about every constraint, index and column, in its own normal form.
CATALOG = """
select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
where connamespace = 'public'::regnamespace and conrelid <> 0 and conrelid::regclass::text <> 'alembic_version'
union all
select 'index', tablename, indexname, indexdef from pg_indexes
where schemaname = 'public' and tablename <> 'alembic_version'
union all
select 'column', table_name, column_name, concat_ws(' ', data_type, numeric_precision, numeric_scale, is_nullable,
    column_default, is_identity) from information_schema.columns
where table_schema = 'public' and table_name <> 'alembic_version'
order by 1, 2, 3
"""


def catalog(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(CATALOG.encode()).fetchall()


def test_the_migrations_build_what_the_tables_declare(
    database: Database, database_url: str, empty_database_url: str
) -> None:
    declared = Database(empty_database_url, application_name="declared")
    with declared.transaction() as conn:
        METADATA.create_all(conn)
    declared.close()
    assert catalog(database_url) == catalog(empty_database_url)
    with database.transaction() as conn:
        assert compare_metadata(MigrationContext.configure(conn), METADATA) == []


def test_up_down_up(empty_database_url: str) -> None:
    schema.upgrade(empty_database_url)
    first = catalog(empty_database_url)
    schema.downgrade(empty_database_url, "base")
    assert catalog(empty_database_url) == []
    schema.upgrade(empty_database_url)
    assert catalog(empty_database_url) == first
    assert first != []


def test_two_upgrades_at_once_take_turns(empty_database_url: str) -> None:
    at_once(3, lambda _: schema.upgrade(empty_database_url))
    database = Database(empty_database_url, application_name="t")
    with database.transaction() as conn:
        schema.check(conn)
        assert schema.current_revision(conn) == schema.head_revision()
    database.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("delete from alembic_version", r"at nothing, this code wants \d+; run `manage.py db upgrade`"),
        ("update alembic_version set version_num = '9999'", "newer than this code"),
    ],
)
def test_a_schema_that_does_not_fit_says_what_to_do(
    database: Database, database_url: str, statement: str, message: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(statement.encode())
    with database.transaction() as conn, pytest.raises(PrerequisiteMissing, match=message):
        schema.check(conn)


def test_a_locked_table_makes_the_migration_give_up_rather_than_block_everyone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "TRIES", 1)
    with psycopg.connect(database_url) as holder:
        holder.execute("select count(*) from campaign")
        with pytest.raises(DatabaseUnavailable, match="stayed locked"):
            schema.downgrade(database_url, "base")
    schema.downgrade(database_url, "base")


def test_an_unreachable_database_is_said_at_once() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1"):
        schema.upgrade("postgresql://127.0.0.1:1/none")


def test_revisions_are_numbered_and_named() -> None:
    folder = Path(str(migrations.__file__)).parent / "versions"
    names = sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")
    assert names
    for number, name in enumerate(names, 1):
        assert re.fullmatch(rf"{number:04d}_[a-z][a-z0-9_]*\.py", name), name
        assert f'revision = "{number:04d}"' in (folder / name).read_text()
    assert schema.head_revision() == f"{len(names):04d}"


def test_every_constraint_has_a_name_of_the_convention(database_url: str) -> None:
    for kind, table, name, _ in catalog(database_url):
        if kind != "column" and not str(name).endswith("_not_null"):
            assert re.match(rf"(pk|fk|uq|ix|ck)_{table}(_|$)", str(name)), name
