"""``diagnose``: a look into a trained coordinator, made in a process of its own because it loads the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.options import AsJson

if TYPE_CHECKING:
    from services.reports.diagnosis import Diagnosis, Section

NEEDED = ("torch", "sklearn", "matplotlib")  # of the extras that a diagnosis takes, one module each


def diagnose(
    subject: Annotated[
        str, typer.Argument(metavar="CAMPAIGN|FOLDER", help="Name of a submitted campaign, or a checkpoint folder.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", file_okay=False, help="Folder for the page, its plots and the figures.")
    ] = None,
    problems: Annotated[
        int, typer.Option("--problems", min=2, help="Questions to read at most, and of each split of an answer table.")
    ] = 300,
    problems_from: Annotated[
        Path | None, typer.Option("--problems-from", dir_okay=False, help="For a folder: campaign file with problems.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option("--campaign", help="For a folder: submitted campaign with problems.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look into a trained coordinator. States, choices, noise, steps, curvature; no model is called.

    docs/diagnose.md says what every figure means and where it misleads.
    """
    from services.cli import apart, render
    from services.reports.diagnosis import Diagnosis

    given = {"--output": output, "--problems": problems, "--problems-from": problems_from, "--campaign": campaign}
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    document = apart.answer("services.diagnosis", [*words, "--", subject], NEEDED)
    if as_json:
        render.show_json(document)
    else:
        show(Diagnosis.from_json(document))


def show(diagnosis: Diagnosis) -> None:
    """Write all sections as tables."""
    from services.cli import render

    render.show(f"Diagnosis of {diagnosis.subject}; vector: {diagnosis.vector}")
    for section in diagnosis.sections:
        render.show(f"\n{section.title}")
        show_section(section)


def show_section(section: Section) -> None:
    """Write the figures and below them the tables; what could not be estimated stands with its reason."""
    from services.cli import render
    from services.reports.diagnosis import shown

    rows = [(each.name, shown(each.value), each.span or "-", each.size or "-", each.remark) for each in section.figures]
    if rows:
        render.show_table(("figure", "value", "95 % interval", "n", "remark"), rows, indent=2)
    for table in section.tables:
        render.show(f"\n  {table.title}")
        render.show_table(table.columns, [[shown(cell) for cell in row] for row in table.rows], indent=2)
        if table.remark:
            render.show(f"  {table.remark}")
