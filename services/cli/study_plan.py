"""``reproduce --plan``: what every campaign of a study will take, and all of them together. Touches no service."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from services.cli import planning, render
from services.cli.studies import PreparedStudy, Run
from services.config.settings import Settings
from services.core.studies.study import Row, labels_of

COLUMNS = ("campaign", "for", "episodes", "calls", "tokens", "USD", "USD at most", "time")


@dataclass(frozen=True)
class Price:
    """Expected figures but for ``largest_usd``; ``stops`` names the limits that end the campaign before its plan."""

    episodes: int
    calls: int
    tokens: int
    usd: Decimal
    largest_usd: Decimal
    seconds: float
    stops: tuple[str, ...] = ()

    def __add__(self, other: Price) -> Price:
        return Price(
            self.episodes + other.episodes,
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.largest_usd + other.largest_usd,
            self.seconds + other.seconds,
        )


NOTHING = Price(0, 0, 0, Decimal(0), Decimal(0), 0.0)


def price_of(run: Run, settings: Settings) -> Price:
    """Return what one campaign will take; its time assumes that it has the workers for itself."""
    plan, pace = run.prepared.plan, planning.usual_pace(run.prepared, settings)
    held = planning.limited(run.prepared, pace)
    return Price(
        plan.episodes,
        plan.expected_calls,
        plan.expected_tokens,
        plan.expected_usd,
        plan.largest_usd,
        pace.seconds(plan),
        tuple(row.name for row in held if row.fit is planning.Fit.WILL_STOP),
    )


def show(planned: PreparedStudy, settings: Settings, *, as_json: bool) -> None:
    """Print the price of each campaign and of all; campaigns that are complete already are not known here."""
    prices = {run.name: price_of(run, settings) for run in planned.runs}
    total = sum(prices.values(), NOTHING)
    if as_json:
        render.show_json(document(planned, prices, total))
        return
    study = planned.study
    render.show(f"{study.name}: {study.title}, {study.paper.source}, on {planned.base.campaign.name}")
    render.show(f"  {study.question}")
    rows = [(run.name, labels_of(lines_of(planned, run)), *cells(prices[run.name])) for run in planned.runs]
    render.show_table(COLUMNS, [*rows, ("all", f"{len(rows)} campaigns", *cells(total))], indent=2)
    for name, price in prices.items():
        if price.stops:
            render.show(f"  {name} will stop at its limit of {', '.join(price.stops)}")
    for line in planned.left_out:
        render.show(f"  left out: {line.label}: {render.printable(line.reason)}")
    render.show("  complete campaigns of the same specification are used again; they cost nothing a second time")


def lines_of(planned: PreparedStudy, run: Run) -> list[Row]:
    """Return which lines of the comparison are read from a campaign."""
    return [row for row in planned.rows if row.variant.key in run.keys]


def cells(price: Price) -> tuple[str, ...]:
    numbers = (price.episodes, price.calls, price.tokens)
    money = (price.usd, price.largest_usd)
    return (*(f"{n:,}" for n in numbers), *(render.usd(usd) for usd in money), render.duration(price.seconds))


def document(planned: PreparedStudy, prices: dict[str, Price], total: Price) -> dict[str, Any]:
    study = planned.study
    campaigns = [
        {"name": run.name, "seed": run.seed, "rows": [row.label for row in lines_of(planned, run)]}
        | {"sha256": run.prepared.sha256, "plan": prices[run.name]}
        for run in planned.runs
    ]
    return {
        "study": study.name,
        "paper": study.paper.source,
        "base": planned.base.campaign.name,
        "seeds": planned.seeds,
        "campaigns": campaigns,
        "total": total,
        "left_out": planned.left_out,
    }
