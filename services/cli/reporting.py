"""From stored records to a report's facts; the comparison as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.cli import candidates, overviews, render, steering
from services.cli.overviews import Overview
from services.core.campaign import Campaign
from services.core.fitness import is_shaped
from services.core.states import AttemptOutcome, CandidateKind
from services.reports import comparison as compared
from services.reports.records import CallFigure, CampaignFacts, CurveFigure, OutcomeFigure, PolicyKind, Score
from services.storage.engine import Database
from services.storage.records import CallTotals, CampaignRecord, CoordinatorRecord, CurvePoint, EvaluationRow


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
        scores=tuple(score_of(row, names) for row in found.evaluation),
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
    return f"mean reward, entropy bonus {search.entropy_bonus:g}, turn bonus {search.turn_bonus:g} (training only)"


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


def score_of(row: EvaluationRow, names: Sequence[str]) -> Score:
    """Return the held-out reward under the policy's name as the tables print it."""
    policies = {
        CandidateKind.MEAN: (PolicyKind.COORDINATOR, compared.COORDINATOR),
        CandidateKind.RANDOM: (PolicyKind.RANDOM, compared.RANDOM),
    }
    kind, policy = policies.get(row.candidate_kind) or (PolicyKind.SINGLE, names[row.candidate_index])
    return Score(kind, policy, row.problem_key, row.family, row.reward)


def call_figure(item: CallTotals) -> CallFigure:
    counted = item.outcome in (AttemptOutcome.DONE, AttemptOutcome.RUNNING)
    return CallFigure(item.model, item.role.value, counted, item.calls, item.errors, item.tokens, item.usd)


def write(facts: CampaignFacts, folder: Path) -> Path:
    """Write the HTML report and return its page. Imports matplotlib."""
    from services.reports import html

    return html.write(facts, folder)


def show_comparison(facts: CampaignFacts) -> None:
    """Print the held-out table and what the paired differences say; nothing before there is a held-out score."""
    result = compared.compare(facts.scores, facts.seed)
    if not result.lines:
        return
    render.show("\nheld-out comparison (95 % intervals)")
    rows = [comparison_row(line) for line in result.lines]
    render.show_table(("policy", "n", "mean", "low", "high"), rows, indent=2)
    for difference in result.differences:
        interval = difference.interval
        render.show(
            f"  coordinator - {difference.against}: {interval.estimate:+.3f}, "
            f"paired interval {interval.low:+.3f} to {interval.high:+.3f}, n={difference.n}"
        )


def comparison_row(line: compared.Line) -> tuple[object, ...]:
    interval = line.interval
    return (line.policy, line.n, *(render.figure(value) for value in (interval.estimate, interval.low, interval.high)))


def comparison_document(facts: CampaignFacts) -> Any:
    return render.plain(compared.compare(facts.scores, facts.seed))
