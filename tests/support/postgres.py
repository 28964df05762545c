"""A real Postgres for tests: one server a session, one freshly cloned database a test.

TRINITY_TEST_DATABASE_URL selects an existing server (its role must be able to create databases); without it a private
one is started.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.engine import make_url

from services.local.postgres import EmbeddedPostgres
from services.storage import schema
from services.storage.engine import Database

TEMPLATE = "trinity_template"
# Copying and dropping a database makes a checkpoint, which waits for the disk. A killed server still keeps its data.
FAST = ("fsync = off", "full_page_writes = off")


def in_database(url: str, name: str) -> str:
    """Return the URL of another database of the same server."""
    return make_url(url).set(drivername="postgresql", database=name).render_as_string(hide_password=False)


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The server's maintenance database."""
    external = os.environ.get("TRINITY_TEST_DATABASE_URL")
    if external:
        yield external
        return
    # Short and world-readable: a socket path has a limit, and as root the server runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="trinity-pg-", dir="/tmp"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(folder / "data")
    try:
        url = server.start()
        for setting in FAST:
            execute(url, f"alter system set {setting}")
        execute(url, "select pg_reload_conf()")
        yield url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database to clone."""
    name = f"{TEMPLATE}_{uuid4().hex[:8]}"
    execute(postgres_url, f"create database {name}")
    schema.upgrade(in_database(postgres_url, name))
    yield name
    execute(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def database_url(postgres_url: str, template: str) -> Iterator[str]:
    """A migrated, empty database of this test alone."""
    name = f"test_{uuid4().hex[:12]}"
    execute(postgres_url, f"create database {name} template {template} strategy file_copy")
    yield in_database(postgres_url, name)
    execute(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database without any table."""
    name = f"test_{uuid4().hex[:12]}"
    execute(postgres_url, f"create database {name}")
    yield in_database(postgres_url, name)
    execute(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = Database(database_url, application_name="trinity-test", pool_size=8)
    yield made
    made.close()


@contextmanager
def outage(url: str) -> Iterator[None]:
    """Cut every connection to a database and let none in until the end of the block; its server runs on."""
    name = make_url(url).database
    server = in_database(url, "postgres")
    execute(server, f"alter database {name} with allow_connections false")
    try:
        execute(server, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        yield
    finally:
        execute(server, f"alter database {name} with allow_connections true")
