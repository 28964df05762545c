"""Commands of the pool: check a campaign's models, weigh and choose them; serve simulated models and recordings."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson, CampaignPath

app = typer.Typer(help="Models: check, weigh and choose them, serve local ones.", no_args_is_help=True)

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...", help="A submitted campaign, a campaign file with recordings, or tables of rewards."
    ),
]
Heldout = Annotated[bool, typer.Option("--heldout", help="Of a campaign file: its held-out problems too.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of random halves and resampling.")]
QuestionField = Annotated[str, typer.Option("--question", help="Of tables: field with the question's key.")]
FamilyField = Annotated[str, typer.Option("--family", help="Of tables: field with the question's family.")]
ModelField = Annotated[str, typer.Option("--model", help="Of tables: field with the model's name.")]
RewardField = Annotated[
    str, typer.Option("--reward", help="Of tables: field with the reward; `scores.*` has those of all models.")
]


@app.callback()
def pool() -> None:
    """Models: check, weigh and choose them, serve local ones."""


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
def headroom(
    sources: Sources,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Gain in mean reward that training is worth it from.")
    ] = 0.02,
    by_family: Annotated[bool, typer.Option("--by-family", help="Let families count alike, not questions.")] = False,
    heldout: Heldout = False,
    question: QuestionField = "question",
    family: FamilyField = "family",
    model: ModelField = "model",
    reward: RewardField = "reward",
    states: Annotated[
        bool,
        typer.Option("--states", help="Of a campaign file: try a router on what its encoder reads."),
    ] = False,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, typer.Option("--output", file_okay=False, help="Folder for a page, its plots and the figures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what routing could gain over the best single model. No model is called; docs/headroom.md explains."""
    from services.cli import connections, outcome_sources, render
    from services.cli import headroom as analysis
    from services.cli.outcome_rows import Columns

    columns = Columns(question, family, model, reward)
    settings = connections.load_settings()
    outcomes = outcome_sources.read(sources, settings, columns, heldout=heldout, with_states=states)
    found = analysis.analysed(outcomes, seed=seed, threshold=threshold, by_family=by_family)
    if as_json:
        render.show_json(analysis.document(outcomes, found))
    else:
        analysis.show(outcomes, found)
    if output is not None:
        render.say(str(analysis.write(outcomes, found, output)))


@app.command()
def select(
    sources: Sources,
    size: Annotated[int | None, typer.Option(min=2, help="Models of the pool; default the best size up to 7.")] = None,
    max_price: Annotated[
        float | None, typer.Option(min=0.0, help="Dearest model, in USD per million output tokens.")
    ] = None,
    frontier: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How close to the best on some family a model has to come.")
    ] = 0.05,
    heldout: Heldout = False,
    question: QuestionField = "question",
    family: FamilyField = "family",
    model: ModelField = "model",
    reward: RewardField = "reward",
    seed: SeedOption = 0,
    as_json: AsJson = False,
) -> None:
    """Choose a pool by the paper's relative error reduction. Judged on questions that did not choose it."""
    from services.cli import connections, outcome_sources, pool_choice, render
    from services.cli.outcome_rows import Columns

    columns = Columns(question, family, model, reward)
    outcomes = outcome_sources.read(sources, connections.load_settings(), columns, heldout=heldout)
    if max_price is not None:
        outcomes = pool_choice.affordable(outcomes, Decimal(str(max_price)))
    selections = pool_choice.chosen(outcomes, size, seed=seed, share=frontier)
    if as_json:
        render.show_json(pool_choice.document(outcomes, selections))
    else:
        pool_choice.show(outcomes, selections)


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
