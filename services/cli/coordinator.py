"""Commands on released coordinators: list, show, release, compare, take home, bring in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson, CampaignName, CampaignPath

app = typer.Typer(help="Coordinators: list, show, release, evaluate, export, import.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a released coordinator.")]
NameOrFolder = Annotated[
    str, typer.Argument(metavar="NAME|FOLDER", help="A coordinator's name or a checkpoint folder.")
]
Checkpoint = Annotated[Path, typer.Argument(metavar="FOLDER", help="A checkpoint folder.")]
NewFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to make; it may exist if it is empty.")]


@app.command("list")
def list_coordinators(as_json: AsJson = False) -> None:
    """List all coordinators, oldest first."""
    from services.cli import connections, coordinators

    with connections.open_database(connections.load_settings()) as database:
        coordinators.show_list(database, as_json=as_json)


@app.command()
def show(name: NameOrFolder, as_json: AsJson = False) -> None:
    """Show one coordinator. Model, reading, head, pool, origin, scores. A folder needs no database."""
    from services.cli import connections, coordinators

    if (folder := Path(name)).is_dir():
        coordinators.show_folder(folder, as_json=as_json)
        return
    with connections.open_database(connections.load_settings()) as database:
        coordinators.show(database, name, as_json=as_json)


@app.command()
def release(
    campaign: CampaignName,
    generation: Annotated[
        int | None,
        typer.Option(min=0, help="Whose opening mean; default the best validated one, the latest on ties."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Default CAMPAIGN-gN.")] = None,
    as_json: AsJson = False,
) -> None:
    """Release a mean of a campaign by hand. Its search releases one by itself when the campaign completes."""
    from services.cli import connections, releasing, render

    with connections.open_database(connections.load_settings()) as database:
        released = releasing.release(database, campaign, generation, name)
    if as_json:
        render.show_json(released)
    else:
        render.show(f"released {released.name}, the mean of generation {released.generation}, {released.reason}")


@app.command()
def evaluate(
    name: Name,
    file: CampaignPath,
    new_name: Annotated[str | None, typer.Option("--name", help="Of the campaign; default the file's.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only tell what it would take.")] = False,
    sandbox_elsewhere: Annotated[
        bool, typer.Option("--sandbox-elsewhere", help="Ask for no sandbox here: workers on other machines have one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare a coordinator without training. Submits a campaign of the file's problems, baselines and rivals."""
    from services.cli import comparable, connections, planning, render, submission

    settings = connections.load_settings()
    prepared = submission.prepare(file, settings, new_name, comparable.changes(name))
    if plan:
        planning.show(prepared, planning.usual_pace(prepared, settings), as_json=as_json)
        return
    if not sandbox_elsewhere:
        submission.require_sandbox(prepared.problems, settings)
    campaign_id = submission.submit(prepared, settings)
    with connections.open_database(settings) as database:
        seen = comparable.seen_in_training(database, campaign_id, name)
    if as_json:
        told = {"id": campaign_id, "name": prepared.campaign.name, "sha256": prepared.sha256}
        render.show_json(told | {"held_out_seen_in_training": seen})
        return
    if seen:
        render.say(f"{name} was trained on or chosen by {seen} of the held-out questions, which flatters it")
    render.show(f"submitted campaign {prepared.campaign.name} (id {campaign_id}): {prepared.sizes()}")
    render.say(f"compare with `manage.py campaign compare {prepared.campaign.name}` when it is complete")


@app.command()
def export(name: Name, folder: NewFolder) -> None:
    """Write a coordinator as a checkpoint folder. Parameters, description, model card."""
    from services.cli import connections, coordinators, render

    with connections.open_database(connections.load_settings()) as database:
        checkpoint = coordinators.export(database, name, folder)
    render.show(str(folder))
    if checkpoint.description.reading is None:
        render.say("unknown: with which weights, tokenizer and template it was trained; nobody recorded them")


@app.command("import")
def import_checkpoint(
    folder: Checkpoint,
    name: Annotated[str | None, typer.Option("--name", help="Another name than the checkpoint's.")] = None,
) -> None:
    """Add a checkpoint to the database. It is checked field by field and kept as it is."""
    from services.cli import connections, coordinators, render

    with connections.open_database(connections.load_settings()) as database:
        imported = coordinators.bring_in(database, folder, name)
    render.show(f"imported {imported}")
