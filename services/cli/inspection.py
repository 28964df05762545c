"""``campaign list`` and ``campaign show``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from services.cli import candidates, overviews, render, reporting
from services.cli.advice import what_now
from services.cli.overviews import Overview
from services.core.protocol.roles import ROLE_ORDER
from services.core.states import AttemptOutcome
from services.storage import overview
from services.storage.engine import Database
from services.storage.records import (
    CallTotals,
    CampaignRecord,
    CampaignRow,
    CurvePoint,
    EventRecord,
    OutcomeCount,
    Progress,
)


def show_list(database: Database, *, as_json: bool) -> None:
    with database.transaction() as conn:
        rows = overview.campaign_rows(conn)
    if as_json:
        render.show_json(rows)
        return
    columns = ("name", "state", "gen", "episodes", "calls", "weight", "spent", "submitted")
    render.show_table(columns, [list_row(row) for row in rows])
    for row in rows:
        if row.stop_reason is not None:
            render.show(render.printable(f"{row.name}: {row.stop_reason}"))


def list_row(row: CampaignRow) -> tuple[object, ...]:
    done = f"{row.episodes_scored:,} of {row.episode_budget:,}"
    calls, weight = render.count(row.calls_started), f"{row.weight:g}"
    spent, minute = render.usd(row.usd_charged), render.moment(row.created_at)[:-3]
    return (row.name, row.state, row.generation, done, calls, weight, spent, minute)


def show_campaign(database: Database, name: str, events_limit: int, *, as_json: bool) -> None:
    """Print one campaign, all figures of the same moment."""
    found = overviews.read(database, name, events_limit)
    facts = reporting.facts_from(found)
    if as_json:
        render.show_json(as_document(found, reporting.comparison_document(facts)))
        return
    show_head(found)
    show_spend(found.record)
    show_curve(found)
    show_outcomes(found.outcomes)
    show_verdicts(found)
    show_totals(found.totals)
    reporting.show_comparison(facts)
    show_events(found.events)


def as_document(found: Overview, comparison: object) -> Mapping[str, Any]:
    coordinator = found.coordinator
    released = coordinator and {"id": coordinator.id, "name": coordinator.name, "generation": coordinator.generation}
    return {
        "campaign": found.record,
        "preset": candidates.preset_text(found.campaign),
        "what_now": what_now(found.record),
        "progress": {
            "generation": found.progress.generation,
            "kind": found.progress.generation_kind,
            "state": found.progress.generation_state,
            "episodes": found.progress.episodes,
            "failures": found.progress.failures,
        },
        "learning_curve": found.curve,
        "last_validation": found.last_validation,
        "calls": found.totals,
        "outcomes": found.outcomes,
        "verdicts": found.verdicts,
        "comparison": comparison,
        "coordinator": released,
        "events": found.events,
    }


def show_head(found: Overview) -> None:
    record, campaign, progress = found.record, found.campaign, found.progress
    reason = f", {record.stop_reason}" if record.stop_reason else ""
    render.show(f"campaign {record.name} (id {record.id}): {record.state}{reason}")
    lines = [("what now", advice)] if (advice := what_now(record)) else []
    lines += [
        ("pool", ", ".join(model.name for model in campaign.pool)),
        *candidates.lines(campaign),
        ("seed", f"{record.seed}; specification {record.spec_sha256[:12]}; {record.versions.get('search', '-')}"),
        ("submitted", render.moment(record.created_at)),
        ("running", render.duration(record.running_seconds)),
        ("control", reporting.control_text(campaign, record)),
        ("generation", generation_line(progress)),
    ]
    if record.forked_from is not None:
        lines.append(
            ("forked from", f"campaign {record.forked_from.campaign_id}, generation {record.forked_from.generation}")
        )
    if found.coordinator is not None:
        lines.append(
            ("coordinator", f"{found.coordinator.name}, the mean of generation {found.coordinator.generation}")
        )
    for heading, text in lines:
        render.show(f"  {heading:<12}{render.printable(text)}")


def generation_line(progress: Progress) -> str:
    """Return where the newest generation stands, failed attempts by kind included."""
    if progress.generation is None:
        return "none yet"
    failures = "".join(f", {number} x {kind}" for kind, number in sorted(progress.failures.items()))
    counts = f"{progress.done} of {progress.total} episodes scored"
    return f"{progress.generation} ({progress.generation_kind}), {progress.generation_state}, {counts}{failures}"


def show_spend(record: CampaignRecord) -> None:
    spend, limits = record.spend, record.budget
    render.show("\nbudget")
    hours = limits.wall_clock_seconds
    rows: list[tuple[object, ...]] = [
        ("episodes", None, render.count(spend.episodes_reserved), render.count(limits.episodes)),
        ("calls", render.count(spend.calls_started), None, render.count(limits.calls)),
        (
            "tokens",
            render.count(spend.tokens_charged),
            render.count(spend.tokens_reserved),
            render.count(limits.tokens),
        ),
        ("USD", render.usd(spend.usd_charged), render.usd(spend.usd_reserved), render.usd(limits.usd)),
        (
            "running time",
            render.duration(record.running_seconds),
            None,
            None if hours is None else render.duration(hours),
        ),
    ]
    render.show_table(("", "spent", "reserved", "limit"), rows, indent=2)
    if spend.tokens_overrun or spend.usd_overrun:
        overrun = f"{render.count(spend.tokens_overrun)} tokens and {render.usd(spend.usd_overrun)}"
        render.show(f"  providers billed {overrun} more than was reserved for the calls")


def show_curve(found: Overview) -> None:
    if not found.curve:
        return
    render.show("\nlearning curve (mean and best reward over the candidates; validation is the mean's own)")
    rows = [curve_row(point, found.models) for point in found.curve]
    if found.last_validation is not None:
        rows.append(("last", None, None, render.figure(found.last_validation), *[None] * 5))
    columns = ("gen", "mean", "best", "validation", "sigma", "turns", "models chosen", "roles chosen", "spent")
    render.show_table(columns, rows, indent=2)


def curve_row(point: CurvePoint, names: Sequence[str]) -> tuple[object, ...]:
    return (
        point.generation,
        render.figure(point.mean_fitness),
        render.figure(point.best_fitness),
        render.figure(point.validation),
        f"{point.sigma:.3g}",
        render.figure(point.mean_turns, 2),
        shares((names[index], part) for index, part in sorted(point.agent_share.items())),
        shares((role.value, point.role_share[role]) for role in ROLE_ORDER if role in point.role_share),
        render.usd(point.usd),
    )


def shares(parts: Iterable[tuple[str, float]]) -> str:
    return " ".join(f"{name} {render.share(part)}" for name, part in parts) or render.MISSING


def show_outcomes(outcomes: Sequence[OutcomeCount]) -> None:
    """Print why episodes were worth what they were, and which of them were worth nothing that could be told."""
    if not outcomes:
        return
    render.show("\noutcomes")
    rows = [
        (each.purpose, each.outcome, "no reward" if each.failed else "", render.count(each.episodes))
        for each in outcomes
    ]
    render.show_table(("episodes of", "outcome", "", "episodes"), rows, indent=2)


def show_verdicts(found: Overview) -> None:
    """Print what the Verifiers said; a low reward of what one accepted is that of a credulous one."""
    if not found.verdicts:
        return
    render.show("\nverdicts")
    rows = [
        (
            "nobody asked" if each.agent is None else found.models[each.agent],
            each.source,
            *(render.count(number) for number in (each.accepts, each.revises, each.unclear)),
            render.figure(each.accepted_reward),
        )
        for each in found.verdicts
    ]
    render.show_table(("verifier", "by", "accept", "revise", "unclear", "reward of accepted"), rows, indent=2)


def show_totals(totals: Sequence[CallTotals]) -> None:
    """Print calls by model and role; those of attempts that did not count stand apart."""
    counted = [item for item in totals if item.outcome in (AttemptOutcome.DONE, AttemptOutcome.RUNNING)]
    repeated = [item for item in totals if item not in counted]
    for heading, items in (
        ("calls", counted),
        ("calls of attempts that did not count (failed, lost, given back)", repeated),
    ):
        if items:
            render.show(f"\n{heading}")
            columns = ("model", "role", "attempt", "calls", "errors", "tokens", "USD")
            render.show_table(columns, [*map(total_row, items), sum_row(items)], indent=2)


def total_row(item: CallTotals) -> tuple[object, ...]:
    figures = (render.count(item.calls), render.count(item.errors), render.count(item.tokens), render.usd(item.usd))
    return (item.model, item.role, item.outcome, *figures)


def sum_row(items: Sequence[CallTotals]) -> tuple[object, ...]:
    calls, errors, tokens = (sum(getattr(item, name) for item in items) for name in ("calls", "errors", "tokens"))
    usd = sum((item.usd for item in items), Decimal(0))
    return ("all", "", "", render.count(calls), render.count(errors), render.count(tokens), render.usd(usd))


def show_events(found: Sequence[EventRecord]) -> None:
    if not found:
        return
    render.show("\nnewest events (scored episodes left out)")
    rows = [(render.moment(event.created_at), event.type, event_text(event)) for event in reversed(found)]
    render.show_table(("time", "event", "what"), rows, indent=2)


def event_text(event: EventRecord) -> str:
    """Return the reason, else the payload as ``key value`` pairs, and how often handling it failed."""
    reason = event.payload.get("reason")
    parts = [str(reason)] if reason else [f"{key} {value}" for key, value in event.payload.items()]
    return ", ".join([*parts, f"{event.failures} failed tries"] if event.failures else parts)
