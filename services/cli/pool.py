"""Commands of the local pools: simulated models and recorded answers, served over HTTP on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The local pools: simulated models and recorded answers.", no_args_is_help=True)


@app.callback()
def pool() -> None:
    """The local pools: simulated models and recorded answers."""


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
