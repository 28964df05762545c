"""From stored records to a report's facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.cli import candidates, comparing, heldout, overviews, render, steering
from services.cli.overviews import Overview
from services.core.campaign import Campaign
from services.core.fitness import counts_cost, has_bonuses, is_shaped
from services.core.states import AttemptOutcome
from services.reports.comparison import Comparison, compare
from services.reports.records import CallFigure, CampaignFacts, CurveFigure, OutcomeFigure
from services.storage.engine import Database
from services.storage.records import CallTotals, CampaignRecord, CoordinatorRecord, CurvePoint


def facts_of(database: Database, name: str) -> CampaignFacts:
    """Read everything that a report tells, all of the same moment; SpecError for an unknown campaign."""
    return facts_from(overviews.read(database, name))


def facts_from(found: Overview) -> CampaignFacts:
    record, campaign, names = found.record, found.campaign, found.models
    return CampaignFacts(
        name=record.name,
        state=record.state.value,
        reason=record.stop_reason,
        seed=record.seed,
        settings=settings_of(campaign, record) | released(found.coordinator),
        models=names,
        roles=tuple(role.value for role in campaign.protocol.roles),
        population=campaign.search.population,
        replicates=campaign.search.replicates,
        validation_problems=campaign.validation.problems,
        curve=tuple(curve_figure(point, names) for point in found.curve),
        last_validation=found.last_validation,
        scores=heldout.scores(found.held_out.episodes, campaign),
        calls=tuple(call_figure(item) for item in found.totals),
        commands=(
            f"manage.py campaign export {record.name} --out {record.name}   # the specification and every figure",
            f"manage.py campaign report {record.name} --out {record.name}   # this page",
        ),
        specification=dict(record.spec),
        shaped=is_shaped(campaign),
        outcomes=tuple(
            OutcomeFigure(each.purpose.value, each.outcome, not each.failed, each.episodes) for each in found.outcomes
        ),
        family_choice=heldout.family_choice(found.held_out.labels, campaign),
        left_out=heldout.left_out(found.held_out.episodes, campaign),
        choices=heldout.choices(found.held_out.choices, campaign),
    )


def settings_of(campaign: Campaign, record: CampaignRecord) -> dict[str, str]:
    return {
        "seed": str(record.seed),
        "specification": f"sha256 {record.spec_sha256}",
        **dict(candidates.lines(campaign)),
        "fitness": fitness_text(campaign),
        "held-out problems": str(campaign.evaluation.problems),
        "running time": render.duration(record.running_seconds),
        "limits": steering.limits(record.budget),
        "control": control_text(campaign, record),
        "episodes": f"{record.spend.episodes_reserved:,}",
        "model calls": f"{record.spend.calls_started:,}",
        "spent": f"{render.count(record.spend.tokens_charged)} tokens, {render.usd(record.spend.usd_charged)}",
        **{f"version: {name}": version for name, version in sorted(record.versions.items())},
    }


def fitness_text(campaign: Campaign) -> str:
    if not is_shaped(campaign):
        return "mean reward"
    search = campaign.search
    parts = ["mean reward"]
    if has_bonuses(campaign):
        parts.append(f"entropy bonus {search.entropy_bonus:g}, turn bonus {search.turn_bonus:g}")
    if counts_cost(campaign):
        parts.append(f"minus {search.cost_weight:g} x USD of an episode / {search.cost_unit_usd:g}")
    return f"{', '.join(parts)} (training only)"


def control_text(campaign: Campaign, record: CampaignRecord) -> str:
    pauses = f"pauses itself above {render.share(campaign.max_failure_share)} failed attempts"
    return f"weight {record.weight:g}; at most {record.max_attempts} attempts of an episode; {pauses}"


def released(coordinator: CoordinatorRecord | None) -> dict[str, str]:
    if coordinator is None:
        return {}
    chosen = "" if coordinator.validation is None else f", chosen by its validation score {coordinator.validation:.3f}"
    return {"coordinator": f"{coordinator.name}, the mean of generation {coordinator.generation}{chosen}"}


def curve_figure(point: CurvePoint, names: Sequence[str]) -> CurveFigure:
    return CurveFigure(
        generation=point.generation,
        sigma=point.sigma,
        mean_fitness=point.mean_fitness,
        best_fitness=point.best_fitness,
        validation=point.validation,
        model_share={names[index]: part for index, part in point.agent_share.items()},
        role_share={role.value: part for role, part in point.role_share.items()},
        mean_turns=point.mean_turns,
        usd=point.usd,
    )


def call_figure(item: CallTotals) -> CallFigure:
    counted = item.outcome in (AttemptOutcome.DONE, AttemptOutcome.RUNNING)
    return CallFigure(item.model, item.role.value, counted, item.calls, item.errors, item.tokens, item.usd)


def write(facts: CampaignFacts, folder: Path) -> Path:
    """Write the HTML report and return its page. Imports matplotlib."""
    from services.reports import html

    return html.write(facts, folder)


def comparison_of(facts: CampaignFacts) -> Comparison:
    return compare(facts.scores, facts.seed, facts.family_choice)


def show_comparison(facts: CampaignFacts) -> None:
    """Print the held-out comparison; nothing before there is a held-out score."""
    comparing.show(comparison_of(facts))


def comparison_document(facts: CampaignFacts) -> Any:
    """Return the comparison for programs, with who acted and what was left out."""
    found = render.plain(comparison_of(facts))
    return {**found, "choices": render.plain(facts.choices), "left_out": render.plain(facts.left_out)}
