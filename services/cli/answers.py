"""Commands of the kept replies: what there is, take it home, delete it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson

app = typer.Typer(help="Kept replies of models: list, export, delete.", no_args_is_help=True)

OfCampaign = Annotated[str | None, typer.Option("--campaign", help="Only those that this campaign paid for.")]
OfModel = Annotated[str | None, typer.Option("--model", help="Only those of this model.")]
OlderThan = Annotated[
    float | None, typer.Option("--older-than", min=0.0, metavar="DAYS", help="Only those kept longer than that.")
]


@app.command("list")
def list_answers(as_json: AsJson = False) -> None:
    """Tell what is kept. Replies, size and calls that they answered, model by model."""
    from services.cli import connections, kept_replies

    with connections.open_database(connections.load_settings()) as database:
        kept_replies.show(database, as_json=as_json)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="File to write, JSON Lines.")],
    campaign: OfCampaign = None,
    model: OfModel = None,
    older_than: OlderThan = None,
) -> None:
    """Write kept replies to a file. One JSON object a line, in the order in which they were kept."""
    from services.cli import connections, kept_replies, render

    with connections.open_database(connections.load_settings()) as database:
        count = kept_replies.export(database, file, campaign, model, older_than)
    render.say(f"{count:,} replies written to {file}")


@app.command()
def delete(
    campaign: OfCampaign = None,
    model: OfModel = None,
    older_than: OlderThan = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Delete kept replies. Campaigns that ask the same pay again; transcripts and ledgers stay as they are."""
    from services.cli import connections, kept_replies, render

    if everything == any(option is not None for option in (campaign, model, older_than)):
        raise typer.BadParameter("say which: --campaign, --model, --older-than, or --all alone")
    with connections.open_database(connections.load_settings()) as database:
        render.show(f"{kept_replies.delete(database, campaign, model, older_than):,} replies deleted")
