"""``audit verifier``: what the pool's models are worth as Verifiers, measured in a process that talks to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from services.cli.options import AsJson, CampaignName

app = typer.Typer(help="Measure what a campaign's models are worth in a role.", no_args_is_help=True)

NEEDED = ("litellm",)  # of the extra that calls take


@app.callback()
def audit() -> None:
    """Measure what a campaign's models are worth in a role."""


@app.command()
def verifier(
    campaign: CampaignName,
    answers: Annotated[
        str, typer.Option("--answers", help="planted: references and near misses; played: what its Workers answered.")
    ] = "planted",
    problems: Annotated[
        int, typer.Option("--problems", min=1, help="Problems to plant in, or answers of either kind.")
    ] = 50,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which ones are drawn.")] = 0,
    evidence: Annotated[
        list[str], typer.Option("--evidence", help="none, show or decide; give it several times to compare.")
    ] = ["none", "show"],  # noqa: B006 - Typer wants a list
    model: Annotated[list[str], typer.Option("--model", help="Only this model; several times for several.")] = [],  # noqa: B006
    max_usd: Annotated[str, typer.Option("--max-usd", help="Refuse to begin if it could cost more.")] = "1",
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=256, help="Calls at once.")] = 8,
    plan: Annotated[bool, typer.Option("--plan", help="Tell the price and ask nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put answers known to be right or wrong to each model as Verifier. It costs money, told by --plan.

    Prints false accepts and false rejects with 95 % intervals. docs/verifier.md says what the figures mean.
    """
    from services.cli import apart, render

    options = ["--answers", answers, "--problems", str(problems), "--seed", str(seed), "--max-usd", max_usd]
    options += ["--parallel", str(parallel), *(["--plan"] if plan else [])]
    options += [part for use in evidence for part in ("--evidence", use)]
    options += [part for name in model for part in ("--model", name)]
    found = apart.answer("services.verifiers", [*options, "--", campaign], NEEDED)
    if as_json:
        render.show_json(found)
    else:
        show(found)


def show(found: Mapping[str, Any]) -> None:
    """Print the price, and below it one row per model and use of evidence."""
    from services.cli import render

    answers, price = found["answers"], found["price"]
    sizes = f"{answers['right']} right and {answers['wrong']} wrong answers, {answers['source']}"
    render.show(f"Verifiers of campaign {found['campaign']}: {sizes}, seed {answers['seed']}")
    render.show(
        f"  {price['calls']:,} calls, about {_usd(price['expected_usd'])}, at most {_usd(price['largest_usd'])}"
    )
    if "verifiers" not in found:
        return
    render.show(f"  spent {_usd(found['spent_usd'])}\n")
    columns = ("model", "evidence", "false accepts", "95 % interval", "false rejects", "95 % interval", "unclear",
               "by machine", "no reply")  # fmt: skip
    render.show_table(columns, [row(each) for each in found["verifiers"]], indent=2)
    kinds = sorted({kind for each in found["verifiers"] for kind in each["false_accepts_by_kind"]})
    if len(kinds) > 1:
        render.show("\nfalse accepts by kind of error")
        rows = [
            (each["model"], each["evidence"], *(_share(each["false_accepts_by_kind"].get(kind)) for kind in kinds))
            for each in found["verifiers"]
        ]
        render.show_table(("model", "evidence", *kinds), rows, indent=2)
    for kind, count in found["failures"].items():
        render.show(f"  {count:,} calls got no reply: {kind}")


def row(each: Mapping[str, Any]) -> tuple[object, ...]:
    accepts, rejects = each["false_accepts"], each["false_rejects"]
    return (
        each["model"],
        each["evidence"],
        _share(accepts),
        _interval(accepts),
        _share(rejects),
        _interval(rejects),
        each["unclear"],
        each["by_machine"],
        each["no_reply"],
    )


def _share(rate: Mapping[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['count']} of {rate['n']}"


def _interval(rate: Mapping[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['low']:.3f} to {rate['high']:.3f}"


def _usd(text: str) -> str:
    from decimal import Decimal

    from services.cli import render

    return render.usd(Decimal(text))
