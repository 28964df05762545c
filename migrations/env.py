"""Runs the revisions on the connection that `services.storage.schema` hands over, one transaction each."""

from __future__ import annotations

from alembic import context

from services.storage.tables import METADATA


def run() -> None:
    """Run the revisions that Alembic chose. There is no offline mode: triggers are checked against a database."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        transaction_per_migration=True,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
