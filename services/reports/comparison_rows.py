"""The comparison as flat rows, for CSV files and for whoever reads them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from services.core.statistics.intervals import Interval
from services.reports.comparison import Comparison, Difference, Line
from services.reports.costs import Costs

ALL = "all"


def csv_text(comparison: Comparison, *, first: Mapping[str, str] | None = None) -> str:
    """Return the comparison as CSV: one row per family and policy, those of all families together first.

    Args:
        comparison: what is written.
        first: columns put before all others, the same in every row.
    """
    rows = [dict(first or {}) | row for row in rows_of(comparison)]
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def rows_of(comparison: Comparison) -> list[dict[str, object]]:
    """Return one mapping of column to value per family and policy; what is not known is None."""
    front = {line.policy for line in comparison.frontier}
    rows = table_rows(ALL, comparison.lines, comparison.differences, front)
    for family, lines in comparison.families.items():
        rows += table_rows(family, lines, comparison.family_differences.get(family, ()), None)
    return rows


def table_rows(
    family: str, lines: Sequence[Line], differences: Sequence[Difference], front: set[str] | None
) -> list[dict[str, object]]:
    of_name = {each.against: each for each in differences}
    return [
        {
            "family": family,
            "policy": line.policy,
            "kind": line.kind.value,
            "bound": line.bound,
            "problems": line.n,
            "repeats": line.repeats,
            **interval_cells("reward", line.interval),
            **difference_cells(of_name.get(line.policy)),
            **cost_cells(line.costs),
            "on_frontier": None if front is None else line.policy in front,
        }
        for line in lines
    ]


def difference_cells(found: Difference | None) -> dict[str, object]:
    """Return the coordinator's difference to a policy."""
    return {
        **interval_cells("difference", None if found is None else found.interval),
        "wins": found and found.discordance.wins,
        "losses": found and found.discordance.losses,
        "ties": found and found.discordance.ties,
        "p_mcnemar": found and found.p,
        "p_holm": found and found.adjusted,
    }


def cost_cells(costs: Costs | None) -> dict[str, object]:
    """Return what a policy takes per question, and in all."""
    return {
        **interval_cells("usd_per_question", None if costs is None else costs.usd),
        **interval_cells("usd_per_correct", None if costs is None else costs.usd_per_correct),
        "usd_paid": costs and format(costs.paid, "f"),
        "tokens_in": costs and costs.tokens_in,
        "tokens_out": costs and costs.tokens_out,
        "calls": costs and costs.calls,
        "turns": costs and costs.turns,
        "latency_p50_seconds": costs and costs.latency_p50,
        "latency_p95_seconds": costs and costs.latency_p95,
        "episodes": costs and costs.episodes,
        "hits": costs and costs.hits,
        "errors": costs and costs.errors,
        "estimated_calls": costs and costs.estimated,
        "drawn_turns": costs and costs.drawn,
        "stops": costs and tally(costs.stops),
        "outcomes": costs and tally(costs.outcomes),
    }


def interval_cells(name: str, interval: Interval | None) -> dict[str, object]:
    return {
        name: interval and interval.estimate,
        f"{name}_low": interval and interval.low,
        f"{name}_high": interval and interval.high,
    }


def tally(counts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in counts.items())
