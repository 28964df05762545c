"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
CampaignName = Annotated[str, typer.Argument(metavar="NAME", help="Name of a submitted campaign.")]
CampaignPath = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, help="A campaign file (YAML)."),
]
