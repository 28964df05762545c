"""``quickstart``: the whole main job from nothing, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CAMPAIGN = Path("infra/campaigns/quickstart.yaml")


def quickstart(
    file: Annotated[
        Path, typer.Option("--campaign", exists=True, dir_okay=False, help="The campaign file to run.")
    ] = CAMPAIGN,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the services running afterwards.")] = False,
) -> None:
    """Train a coordinator, end to end.

    Start everything, submit a campaign, watch it, compare on held-out problems, write the report, stop everything.
    """
    from services.cli import connections, first_run

    raise typer.Exit(first_run.run(file, connections.load_settings(), keep=keep))
