"""Commands on campaigns: check, submit, watch, steer, take home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson, CampaignName, CampaignPath

app = typer.Typer(help="Campaigns: check, submit, watch, steer, compare, take home.", no_args_is_help=True)

NewName = Annotated[str | None, typer.Option("--name", help="Another name than the file's.")]
SandboxElsewhere = Annotated[
    bool, typer.Option("--sandbox-elsewhere", help="Ask for no sandbox here: workers on other machines have one.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the campaign.")]
Folder = Annotated[Path, typer.Option("--out", file_okay=False, help="Folder to write; made if absent.")]


@app.command()
def validate(file: CampaignPath, as_json: AsJson = False) -> None:
    """Check a campaign file and its problems. Touches no service."""
    from services.cli import connections, render, submission

    prepared = submission.prepare(file, connections.load_settings())
    if as_json:
        render.show_json({"name": prepared.campaign.name, "valid": True, "sha256": prepared.sha256})
    else:
        render.show(f"{file} is valid: campaign {prepared.campaign.name}, {prepared.sizes()}")


@app.command()
def plan(
    file: CampaignPath,
    call_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, help="Assumed duration of a call; default that of local pools, else 5."),
    ] = None,
    decision_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Assumed time of a decision that no cache answers, on one core; default by the encoder's size.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a campaign would take. Sizes, calls, tokens, USD and time, before anything is spent."""
    from services.cli import connections, planning, submission

    settings = connections.load_settings()
    prepared = submission.prepare(file, settings)
    pace = planning.usual_pace(prepared, settings, call_seconds, decision_seconds)
    planning.show(prepared, pace, as_json=as_json)


@app.command()
def submit(
    file: CampaignPath,
    name: NewName = None,
    sandbox_elsewhere: SandboxElsewhere = False,
    as_json: AsJson = False,
) -> None:
    """Check a campaign file and submit it. The scheduler finds it in the database."""
    from services.cli import connections, render, submission

    settings = connections.load_settings()
    prepared = submission.prepare(file, settings, name)
    if not sandbox_elsewhere:
        submission.require_sandbox(prepared.problems, settings)
    campaign_id = submission.submit(prepared, settings)
    if as_json:
        render.show_json({"id": campaign_id, "name": prepared.campaign.name, "sha256": prepared.sha256})
        return
    render.show(f"submitted campaign {prepared.campaign.name} (id {campaign_id}): {prepared.sizes()}")
    render.say(f"watch it with `manage.py campaign watch {prepared.campaign.name}`")


@app.command()
def sweep(
    file: CampaignPath,
    setting: Annotated[str, typer.Option("--set", metavar="FIELD=VALUE,...", help="Field of the file and its values.")],
    name: NewName = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Tell what it would take; submit nothing.")] = False,
    sandbox_elsewhere: SandboxElsewhere = False,
    as_json: AsJson = False,
) -> None:
    """Submit a campaign for each value of a field. All or none; what they take together is told first."""
    from services.cli import connections, render, submission, sweeping

    settings = connections.load_settings()
    swept = sweeping.prepare(file, setting, settings, name)
    if not as_json:
        sweeping.show_plan(swept)
    if not only_plan and not sandbox_elsewhere:
        submission.require_sandbox(swept[0].prepared.problems, settings)
    ids = [] if only_plan else sweeping.submit(swept, settings)
    if as_json:
        render.show_json(sweeping.document(swept, ids))
    elif ids:
        names = " ".join(each.prepared.campaign.name for each in swept)
        render.show(f"\nsubmitted {len(ids)} campaigns")
        render.say(f"compare them with `manage.py campaign compare {names} --out FOLDER`")


@app.command("list")
def list_campaigns(as_json: AsJson = False) -> None:
    """List all campaigns, in the order of submission."""
    from services.cli import connections, inspection

    with connections.open_database(connections.load_settings()) as database:
        inspection.show_list(database, as_json=as_json)


@app.command()
def show(
    name: CampaignName,
    events: Annotated[int, typer.Option(min=0, help="How many of the newest events to show; no scored episodes.")] = 15,
    as_json: AsJson = False,
) -> None:
    """Show one campaign. State, budget, learning curve, calls by model and role, comparison, events."""
    from services.cli import connections, inspection

    with connections.open_database(connections.load_settings()) as database:
        inspection.show_campaign(database, name, events, as_json=as_json)


@app.command()
def watch(
    name: CampaignName,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Watch a campaign until it ends. The exit status is 1 when it fails, is cancelled or has used up a budget."""
    from services.cli import connections, watching
    from services.core.states import CampaignState

    settings = connections.load_settings()
    with connections.open_database(settings) as database:
        ended = watching.watch(database, settings, name, interval=interval)
    raise typer.Exit(0 if ended is CampaignState.COMPLETED else 1)


@app.command()
def pause(name: CampaignName, reason: Reason = "paused by a person") -> None:
    """Stop a campaign for a while. No new call starts; running episodes are given back."""
    from services.cli import connections, steering

    with connections.open_database(connections.load_settings()) as database:
        steering.pause(database, name, reason)


@app.command()
def resume(name: CampaignName) -> None:
    """Let a stopped campaign go on, paused or out of budget. Episodes that failed get new attempts."""
    from services.cli import connections, steering

    with connections.open_database(connections.load_settings()) as database:
        steering.resume(database, name)


@app.command()
def cancel(name: CampaignName, reason: Reason = "cancelled by a person") -> None:
    """End a campaign for good. What it has learned stays in the database."""
    from services.cli import connections, steering

    with connections.open_database(connections.load_settings()) as database:
        steering.cancel(database, name, reason)


@app.command()
def budget(
    name: CampaignName,
    episodes: Annotated[int, typer.Option("--add-episodes", min=0, help="Episodes to add.")] = 0,
    calls: Annotated[int, typer.Option("--add-calls", min=0, help="Model calls to add.")] = 0,
    tokens: Annotated[int, typer.Option("--add-tokens", min=0, help="Tokens to add.")] = 0,
    usd: Annotated[str, typer.Option("--add-usd", metavar="AMOUNT", help="USD to add, e.g. 2.50.")] = "0",
    hours: Annotated[float, typer.Option("--add-hours", min=0.0, help="Hours of running time to add.")] = 0.0,
    resume: Annotated[bool, typer.Option("--resume", help="Let it go on at once if it is stopped.")] = False,
) -> None:
    """Raise the limits of a campaign. For example of one that has used up its budget."""
    from services.cli import connections, steering

    added = steering.Raise(episodes, calls, tokens, steering.amount(usd), hours)
    with connections.open_database(connections.load_settings()) as database:
        steering.add_budget(database, name, added, resume=resume)


@app.command()
def weight(
    name: CampaignName,
    value: Annotated[float, typer.Argument(metavar="VALUE", help="A number above 0; campaigns begin with 1.")],
) -> None:
    """Set a campaign's share of the workers. Twice the weight of another one gets twice its share."""
    from services.cli import connections, steering

    with connections.open_database(connections.load_settings()) as database:
        steering.weigh(database, name, value)


@app.command()
def fork(
    name: CampaignName,
    new_name: Annotated[str, typer.Option("--name", help="Name of the new campaign.")],
    generation: Annotated[
        int | None, typer.Option(min=0, help="A closed generation; default the last training one.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the specification; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a new campaign where another one stood. It begins with that generation's mean and step size."""
    from services.cli import connections, forking, render

    with connections.open_database(connections.load_settings()) as database:
        forked = forking.fork(database, name, generation, new_name, changes or [])
    if as_json:
        render.show_json(forked)
    else:
        render.show(
            f"submitted campaign {forked.name} (id {forked.id}), forked from {name} at generation {forked.generation}"
        )


@app.command()
def export(
    name: CampaignName,
    out: Annotated[Path | None, typer.Option("--out", file_okay=False, help="Folder to write; made if absent.")] = None,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", dir_okay=False, metavar="POOL.jsonl", help="Replies to write, as a pool."),
    ] = None,
) -> None:
    """Write a campaign as JSON files. With --recording its replies too, as a pool that plays them back for free."""
    from services.cli import connections, exporting, render
    from services.cli import recording as recordings

    if out is None and recording is None:
        raise typer.BadParameter("say what to write: --out, --recording or both")
    with connections.open_database(connections.load_settings()) as database:
        for path in exporting.export(database, name, out) if out is not None else ():
            render.show(str(path))
        if recording is not None:
            recordings.show(recordings.record(database, name, recording))


@app.command()
def report(name: CampaignName, out: Folder) -> None:
    """Write the HTML report with its plots. The comparison on held-out problems is printed as well."""
    from services.cli import connections, render, reporting

    with connections.open_database(connections.load_settings()) as database:
        facts = reporting.facts_of(database, name)
    render.show(str(reporting.write(facts, out)))
    reporting.show_comparison(facts)


@app.command()
def compare(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Campaigns; differences are to the first.")],
    out: Annotated[
        Path | None, typer.Option("--out", file_okay=False, help="Folder for a page with plots; made if absent.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", dir_okay=False, metavar="FILE.csv", help="Write the tables as CSV as well.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare campaigns on the held-out problems they share. With one name, all policies of that campaign."""
    from services.cli import comparing_campaigns, connections, render

    with connections.open_database(connections.load_settings()) as database:
        found = comparing_campaigns.read(database, names)
    if csv is not None:
        comparing_campaigns.write_csv(found, csv)
    page = None if out is None else comparing_campaigns.write(found, out)
    if as_json:
        render.show_json(comparing_campaigns.as_document(found))
        return
    comparing_campaigns.show(found)
    if page is not None:
        render.say(str(page))
