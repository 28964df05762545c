"""The comparison of policies as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from services.cli import render
from services.core.statistics.intervals import Interval
from services.reports.comparison import Comparison, Difference, Line
from services.reports.costs import Costs
from services.reports.records import PolicyKind

REWARD_COLUMNS = ("policy", "n", "rep", "mean", "low", "high", "diff", "low", "high", "+/-/=", "p", "p Holm")
COST_COLUMNS = (
    "policy",
    "USD/1000",
    "/correct",
    "tok in",
    "tok out",
    "calls",
    "p50 s",
    "p95 s",
    "turns",
    "stops",
    "front",
)
DERIVED = frozenset({PolicyKind.FAMILY_BEST, PolicyKind.ORACLE})


def show(comparison: Comparison) -> None:
    """Print rewards with the coordinator's paired differences, then what they cost; nothing without a score."""
    if not comparison.lines:
        return
    reference = render.printable(comparison.reference)
    render.show(f"\nheld-out comparison (95 % intervals; diff: {reference} minus the policy, paired by problem)")
    of_name = {each.against: each for each in comparison.differences}
    rows = [(*reward_cells(line), *difference_cells(of_name.get(line.policy))) for line in comparison.lines]
    render.show_table(REWARD_COLUMNS, rows, indent=2)
    show_families(comparison)
    show_costs(comparison)


def show_families(comparison: Comparison) -> None:
    """Print mean rewards by family; nothing when there is one family only."""
    if comparison.families:
        render.show("\nmean reward by family")
        sizes = {family: max(line.n for line in lines) for family, lines in comparison.families.items()}
        means = [(line.policy, comparison.family_means(line.policy)) for line in comparison.lines]
        rows = [(policy, *(render.figure(own.get(family)) for family in sizes)) for policy, own in means]
        columns = ("policy", *(render.printable(f"{family} n={size}") for family, size in sizes.items()))
        render.show_table(columns, rows, indent=2)


def show_costs(comparison: Comparison) -> None:
    priced = [(line, line.costs) for line in comparison.lines if line.costs is not None]
    if priced:
        front = {line.policy for line in comparison.frontier}
        render.show(
            "\nper held-out question, USD for 1,000 questions and 1,000 correct answers (kept replies at list price)"
        )
        rows = [(line.policy, *cost_cells(costs), "*" if line.policy in front else "") for line, costs in priced]
        render.show_table(COST_COLUMNS, rows, indent=2)
        paid = sum((costs.paid for line, costs in priced if not derived(line)), Decimal(0))
        hits = sum(costs.hits for line, costs in priced if not derived(line))
        render.show("  front: not beaten in both reward and USD; bounds left out")
        for line, costs in priced:
            if costs.drawn:
                render.show(
                    f"  {render.printable(line.policy)}: {render.share(costs.drawn)} of its turns were drawn, its "
                    "replies naming no possible action"
                )
        render.show(f"  paid for these episodes: {render.usd(paid)}, {render.count(hits)} kept replies")


def derived(line: Line) -> bool:
    """Return whether a line's episodes are those of other lines."""
    return line.kind in DERIVED


def reward_cells(line: Line) -> tuple[object, ...]:
    return (line.policy, line.n, line.repeats, *interval_cells(line.interval))


def difference_cells(found: Difference | None) -> tuple[object, ...]:
    if found is None:
        return (None,) * 6
    counted, interval = found.discordance, found.interval
    return (
        *(f"{value:+.3f}" for value in (interval.estimate, interval.low, interval.high)),
        f"{counted.wins}/{counted.losses}/{counted.ties}",
        render.figure(found.p),
        render.figure(found.adjusted),
    )


def interval_cells(interval: Interval) -> Sequence[str]:
    return [render.figure(value) for value in (interval.estimate, interval.low, interval.high)]


def cost_cells(costs: Costs) -> tuple[object, ...]:
    return (
        usd(costs.usd),
        usd(costs.usd_per_correct),
        *(render.figure(value, 0) for value in (costs.tokens_in, costs.tokens_out)),
        *(render.figure(value, 2) for value in (costs.calls, costs.latency_p50, costs.latency_p95, costs.turns)),
        stops(costs),
    )


def usd(interval: Interval | None) -> str:
    """Return the amount for a thousand of it."""
    return render.MISSING if interval is None else f"${1000 * interval.estimate:.4f}"


def stops(costs: Costs) -> str:
    """Return why episodes ended, as shares of them."""
    return ", ".join(f"{name} {render.share(number / costs.episodes)}" for name, number in costs.stops.items())
