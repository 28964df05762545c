"""``reproduce``: the paper's tables for a pool and problems of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson
from services.cli.quickstart import CAMPAIGN
from services.core.studies.study import StudyName


def _seeds(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise typer.BadParameter(f"{text!r} is no list of whole numbers such as 1,2,3")
    return tuple(int(word) for word in words)


def reproduce(
    study: Annotated[StudyName, typer.Argument(metavar="STUDY", help="A table or figure of the paper.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, help="The base campaign file.")
    ] = CAMPAIGN,
    plan: Annotated[bool, typer.Option("--plan", help="Tell the price and touch nothing.")] = False,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="LIST", help="Train with each of these, e.g. 1,2,3; default the file's.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", file_okay=False, help="Folder of the report; default below TRINITY_VAR_DIR.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run anew what failed or was cancelled.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the services running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a comparison of the paper on your pool. Its figures stand beside yours, with intervals.

    Runs what is missing, one campaign after the other, and writes a page, plots and CSV. A second call goes on.
    """
    from services.cli import connections, studies, study_plan

    settings = connections.load_settings()
    prepared = studies.prepare(study, file, settings, _seeds(seeds))
    if plan:
        study_plan.show(prepared, settings, as_json=as_json)
        return
    from services.cli import study_run

    raise typer.Exit(study_run.run(prepared, settings, study_run.Given(file, out, again, keep, as_json)))
