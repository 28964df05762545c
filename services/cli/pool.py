"""Commands of the pool: check a campaign's models; serve simulated models and recorded answers on this machine."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson, CampaignPath

app = typer.Typer(help="Models: check those of a campaign, serve local ones.", no_args_is_help=True)


@app.callback()
def pool() -> None:
    """Models: check those of a campaign, serve local ones."""


@app.command()
def check(
    file: CampaignPath,
    dry: Annotated[bool, typer.Option("--dry", help="Look at keys, options and prices only; send nothing.")] = False,
    max_usd: Annotated[
        float, typer.Option(min=0.0, help="Cap on the cost; no call starts whose largest cost is not left.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Call each model of a campaign file once in each role.

    Shows whether it answers in the role's form, how fast and for how much, and what is missing. The exit status is 1
    when something is. Calls are never repeated.
    """
    from services.cli import pool_checks

    if not pool_checks.run(file, dry=dry, max_usd=Decimal(str(max_usd)), as_json=as_json):
        raise typer.Exit(1)


@app.command()
def status(
    newest: Annotated[int, typer.Option(min=1, max=100_000, help="How many of the newest calls are looked at.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Show how the models of all campaigns did lately. Breakers, error rates, commonest errors."""
    from services.cli import connections, model_health

    with connections.open_database(connections.load_settings()) as database:
        model_health.show(database, newest, as_json=as_json)


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default that of TRINITY_LOCAL_POOL_URL.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; default that of TRINITY_LOCAL_POOL_URL.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", file_okay=False, help="Folder of pool files; default TRINITY_LOCAL_POOL_DIR."),
    ] = None,
) -> None:
    """Serve the pool files of a folder. OpenAI-compatible, over HTTP, until stopped."""
    from services.cli import connections, local_pools

    local_pools.serve(connections.load_settings(), folder, host, port)
