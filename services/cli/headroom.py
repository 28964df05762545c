"""``pool headroom``: what routing could gain on a pool, printed and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from services.cli import render
from services.cli.outcome_sources import Outcomes
from services.core.errors import SpecError
from services.core.statistics.headroom import Headroom, headroom
from services.core.statistics.intervals import Interval

MOST_MODELS = 10  # whose disagreement is printed as a matrix
MOST_PAIRS = 10


def analysed(outcomes: Outcomes, *, seed: int, threshold: float, by_family: bool) -> Headroom:
    """Return the analysis; SpecError for one model alone."""
    try:
        return headroom(outcomes.tabulated.table, seed=seed, threshold=threshold, by_family=by_family)
    except ValueError as error:
        raise SpecError("SOURCE", str(error), "rewards of at least two models") from error


def document(outcomes: Outcomes, found: Headroom) -> Any:
    """Return plain data of the analysis."""
    return render.plain({"source": outcomes.source, "remarks": outcomes.remarks, **vars(found)})


def write(outcomes: Outcomes, found: Headroom, folder: Path) -> Path:
    """Write the page, its plots and the figures; return the page. Imports matplotlib."""
    from services.reports import headroom_page

    return headroom_page.write(found, outcomes.source, outcomes.remarks, document(outcomes, found), folder)


def show(outcomes: Outcomes, found: Headroom) -> None:
    """Print verdict, ways to choose, models and disagreement."""
    counted = "families count alike" if found.by_family else "questions count alike"
    render.show(f"headroom of {outcomes.source}")
    families = ", ".join(f"{name} {size:,}" for name, size in found.families.items())
    answers = "one answer" if found.repeats == 1 else f"{found.repeats} answers"
    render.show(f"  {found.questions:,} questions ({families}), {answers} of each model; {counted}")
    for remark in outcomes.remarks:
        render.show(f"  {remark}")
    render.show(f"\n{found.verdict.finding}: {found.verdict.reason}\n")
    rows = [
        (line.way.value, found.questions, render.figure(line.in_sample), *figures(line.value), *signed(line.gain))
        for line in found.lines
    ]
    columns = ("way to choose", "n", "in sample", "cross-fitted", "low", "high", "gain", "low", "high")
    render.show_table(columns, rows, indent=2)
    render.show("  gain: over the best single model, cross-fitted; the union is scored on what chose it, luck included")
    show_models(found)
    show_disagreement(found)


def show_models(found: Headroom) -> None:
    without = "nothing" if found.marginal is None else found.marginal.value
    render.show(f"\n  models; loss: what `{without}` loses without the model (n = {found.questions:,})")
    rows = [
        (each.model, *figures(each.mean), each.alone, render.figure(each.union_loss), *signed(each.loss))
        for each in found.models
    ]
    columns = ("model", "mean", "low", "high", "solves alone", "union loss", "loss", "low", "high")
    render.show_table(columns, rows, indent=2)


def show_disagreement(found: Headroom) -> None:
    """Print the matrix of a small pool, the pairs that differ most of a large one."""
    names = [each.model for each in found.models]
    render.show(f"\n  share of answers worth something else (n = {found.questions * found.repeats:,})")
    if len(names) <= MOST_MODELS:
        rows = [(at, name, *(f"{share:.2f}" for share in found.disagreement[at])) for at, name in enumerate(names)]
        render.show_table(("", "model", *(str(at) for at in range(len(names)))), rows, indent=2)
        return
    pairs = [(found.disagreement[a][b], names[a], names[b]) for a in range(len(names)) for b in range(a)]
    rows = [(first, second, f"{share:.2f}") for share, first, second in sorted(pairs, reverse=True)[:MOST_PAIRS]]
    render.show_table(("model", "model", "share"), rows, indent=2)


def figures(interval: Interval) -> tuple[str, str, str]:
    low, high = render.figure(interval.low), render.figure(interval.high)
    return render.figure(interval.estimate), low, high


def signed(interval: Interval | None) -> tuple[str, ...]:
    if interval is None:
        return (render.MISSING,) * 3
    return tuple(f"{value:+.3f}" for value in (interval.estimate, interval.low, interval.high))
