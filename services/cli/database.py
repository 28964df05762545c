"""Commands of the database: its schema, and the audit of what is in it."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.options import AsJson

app = typer.Typer(help="The database: its schema, and whether its contents keep every promise.", no_args_is_help=True)
AuditedName = Annotated[str | None, typer.Argument(metavar="CAMPAIGN", help="Only this campaign; default all.")]


@app.command()
def upgrade() -> None:
    """Bring the database to the schema of this code. `manage.py up` does it by itself."""
    from services.cli import connections, render
    from services.storage import schema

    schema.upgrade(connections.database_url(connections.load_settings()))
    render.say(f"the schema is at revision {schema.head_revision()}")


@app.command()
def check(as_json: AsJson = False) -> None:
    """Tell whether database and code agree. The exit status is 1 when they do not."""
    from services.cli import connections, render
    from services.storage import schema

    with (
        connections.open_database(connections.load_settings(), schema=False) as database,
        database.transaction() as conn,
    ):
        found = schema.current_revision(conn)
        if as_json:
            render.show_json({"database": found, "code": schema.head_revision()})
        schema.check(conn)
    if not as_json:
        render.show(f"the schema is at revision {found}, as this code wants it")


@app.command()
def audit(campaign: AuditedName = None, as_json: AsJson = False) -> None:
    """Check every invariant, also of a database in use. Changes nothing. The exit status is 1 with findings."""
    from services.cli import auditing, connections

    settings = connections.load_settings()
    with connections.open_database(settings) as database:
        holds = auditing.run(database, settings, campaign, as_json=as_json)
    raise typer.Exit(0 if holds else 1)
