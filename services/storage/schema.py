"""The schema's revision: what the code wants, what the database has, and how to get from one to the other."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from services.core.errors import DatabaseUnavailable, PrerequisiteMissing
from services.storage.engine import BUSY, connect_arguments, parse_url, reason, unavailable

UPGRADE_LOCK = 0x7472_696E_6974_7902
TRIES = 20
CURE_BEHIND = "run `manage.py db upgrade`"


def head_revision() -> str:
    """Return the revision that this code wants."""
    return str(_scripts().get_current_head())


def current_revision(conn: Connection) -> str | None:
    """Return the revision of the database; None for an empty one."""
    return MigrationContext.configure(conn).get_current_revision()


def check(conn: Connection) -> None:
    """Make sure that the database has the schema this code wants.

    Raises:
        PrerequisiteMissing: it is empty, behind, or newer than the code; says which and what to do.
    """
    current, head = current_revision(conn), head_revision()
    if current == head:
        return
    known = {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        raise PrerequisiteMissing(
            f"the database's schema is at {current}, which is newer than this code (it knows up to {head})",
            "update the code, or point TRINITY_DATABASE_URL to another database",
        )
    raise PrerequisiteMissing(
        f"the database's schema is at {current or 'nothing'}, this code wants {head}", CURE_BEHIND
    )


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database up to ``revision``. Two at once take turns; a second one finds nothing to do.

    Raises:
        DatabaseUnavailable: it cannot be reached, or its tables stayed locked through all tries.
    """
    _migrate(url, revision, up=True)


def downgrade(url: str, revision: str) -> None:
    """Take the database back to ``revision`` (``base`` drops everything, data included)."""
    _migrate(url, revision, up=False)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    location = import_module("migrations").__file__
    config = Config()
    config.set_main_option("script_location", str(Path(location or "").parent).replace("%", "%%"))
    return config


def _migrate(url: str, revision: str, *, up: bool) -> None:
    # A short lock timeout with retries: waiting long for a table would make every other statement queue behind us.
    arguments = connect_arguments("trinity-migrate")
    arguments["options"] = "-c lock_timeout=500ms -c timezone=UTC"
    parsed = parse_url(url)
    engine = create_engine(parsed, connect_args=arguments, poolclass=NullPool)
    problem: OperationalError | None = None
    try:
        for _ in range(TRIES):
            try:
                with engine.connect() as conn:
                    _migrate_once(conn, revision, up=up)
                return
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) not in BUSY:
                    raise unavailable(parsed, error.orig) from error
                problem = error
                time.sleep(0.25)
        what = reason(problem.orig) if problem is not None else ""
        raise DatabaseUnavailable(f"the tables stayed locked ({what})", "stop what uses them and upgrade again")
    finally:
        engine.dispose()


def _migrate_once(conn: Connection, revision: str, *, up: bool) -> None:
    conn.execute(text("select pg_advisory_lock(:key)"), {"key": UPGRADE_LOCK})
    conn.commit()
    config = _config()
    config.attributes["connection"] = conn
    (command.upgrade if up else command.downgrade)(config, revision)
