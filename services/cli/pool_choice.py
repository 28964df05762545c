"""``pool select``: pools by the paper's relative error reduction, and by what their best members are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from services.cli import render
from services.cli.outcome_sources import Outcomes
from services.core.errors import SpecError
from services.core.statistics.intervals import Interval
from services.core.statistics.pool_selection import Selection, select
from services.core.statistics.relative_error import Aim

LARGEST_POOL = 7  # the paper's


def affordable(outcomes: Outcomes, most: Decimal) -> Outcomes:
    """Return the outcomes of the models that cost at most so much.

    Raises:
        SpecError: a model's price is not known, or fewer than two models are left.
    """
    table = outcomes.tabulated.table
    unknown = [model for model in table.models if model not in outcomes.prices]
    if unknown:
        wanted = f"a known price of every model; that of {', '.join(unknown)} is not"
        raise SpecError("--max-price", most, wanted)
    kept = [at for at, model in enumerate(table.models) if outcomes.prices[model] <= most]
    if len(kept) < 2:
        raise SpecError("--max-price", most, f"a price that two models have; the source has {prices_text(outcomes)}")
    return replace(outcomes, tabulated=replace(outcomes.tabulated, table=table.only(kept)))


def prices_text(outcomes: Outcomes) -> str:
    return ", ".join(f"{model} {price:f}" for model, price in outcomes.prices.items())


def chosen(outcomes: Outcomes, size: int | None, *, seed: int, share: float) -> list[Selection]:
    """Return the best pool for either aim; SpecError when there is nothing to choose from."""
    table = outcomes.tabulated.table
    sizes = [size] if size is not None else list(range(2, LARGEST_POOL + 1))
    try:
        return [select(table, sizes, seed=seed, share=share, aim=aim) for aim in Aim]
    except ValueError as error:
        raise SpecError("SOURCE", str(error), "more models near the best, or a larger --frontier") from error


def document(outcomes: Outcomes, selections: Sequence[Selection]) -> Any:
    """Return plain data of both pools; ``flattering`` is in sample, ``held`` cross-fitted."""
    pools = []
    for each in selections:
        pool = each.flattering
        flattering = {"best": pool.best, "single": pool.single, "reduction": pool.reduction}
        pools.append({**vars(each), "flattering": flattering})
    return render.plain({"source": outcomes.source, "remarks": outcomes.remarks, "pools": pools})


def show(outcomes: Outcomes, selections: Sequence[Selection]) -> None:
    """Print both pools with their figures on the data that chose them and on data that did not."""
    first = selections[0]
    render.show(f"pools of {outcomes.source}")
    sizes = ", ".join(f"{name} {size:,}" for name, size in first.sizes.items())
    render.show(
        f"  {first.questions:,} questions ({sizes}), families count alike; {len(first.frontier)} models near the best"
    )
    for remark in outcomes.remarks:
        render.show(f"  {remark}")
    for selection in selections:
        show_selection(outcomes, selection)
    paper = first.held.gain
    if paper.high < 0:
        render.show(
            f"\nthe pool with the largest error reduction does worse than the best single model of all, by "
            f"{-paper.estimate:.3f} ({-paper.high:.3f} to {-paper.low:.3f}): it leaves that model out, because the "
            "reduction is measured against the pool's own best member"
        )


def show_selection(outcomes: Outcomes, selection: Selection) -> None:
    held, pool = selection.held, selection.flattering
    render.show(f"\nby {selection.aim}: {', '.join(selection.members)}")
    rows = [
        ("best member of each family (Z)", pool.best, held.best),
        ("best single member (S*)", pool.single, held.single),
        ("relative error reduction", pool.reduction, held.reduction),
        ("best single model of all", None, held.overall),
        ("Z over the best single model of all", None, held.gain),
    ]
    lines = [(name, render.figure(flattering), *spread(interval)) for name, flattering, interval in rows]
    render.show_table(("", "in sample", "cross-fitted", "low", "high"), lines, indent=2)
    parts = [(name, model, _price(outcomes, model)) for name, model in selection.families.items()]
    render.show_table(("family", "best member", "USD per million output tokens"), parts, indent=2)
    often = ", ".join(f"{model} {render.share(share)}" for model, share in selection.often.items())
    render.show(f"  chosen on half of the questions: this pool in {render.share(selection.same)}; {often}")


def spread(interval: Interval) -> tuple[str, str, str]:
    return render.figure(interval.estimate), render.figure(interval.low), render.figure(interval.high)


def _price(outcomes: Outcomes, model: str) -> str:
    price = outcomes.prices.get(model)
    return render.MISSING if price is None else f"{price:f}"
