"""``campaign plan``: what a campaign will take, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

from services.cli import render
from services.cli.submission import Prepared
from services.config.settings import LOCAL_PREFIX
from services.core.ledger.plan import Plan


@dataclass(frozen=True)
class Pace:
    """Assumptions about time: seconds of a call and of a decision (one core), and how much happens at once."""

    call_seconds: float
    decision_seconds: float
    workers: int
    slots: int
    parallel: int

    def seconds(self, plan: Plan) -> float:
        """Return the expected duration: calls overlap in the slots, decisions share the encoders' threads."""
        workers = max(1, self.workers)
        calls = plan.expected_calls * self.call_seconds / (workers * self.slots)
        decisions = plan.expected_calls * self.decision_seconds / (workers * self.parallel)
        return max(calls, decisions)


REMOTE_CALL_SECONDS = 5.0


def usual_call_seconds(prepared: Prepared) -> float:
    """Return the mean latency of the local pools when every model is in one, else an assumption about providers."""
    names = [(model.base_url or "").removeprefix(LOCAL_PREFIX) for model in prepared.campaign.pool]
    if not all(name in prepared.pools for name in names):
        return REMOTE_CALL_SECONDS
    return sum(prepared.pools[name].latency.mean_ms for name in names) / len(names) / 1000


def show(prepared: Prepared, pace: Pace, *, as_json: bool) -> None:
    """Print the plan; largest figures are what the budget is held against, expected ones are rough."""
    plan, budget = prepared.plan, prepared.campaign.budget
    if as_json:
        problems = {split.value: len(items) for split, items in prepared.problems.items()}
        render.show_json(
            {"name": prepared.campaign.name, "plan": render.plain(plan) | {"episodes": plan.episodes}}
            | {"problems": problems, "budget": budget, "expected_seconds": pace.seconds(plan), "assumptions": pace}
        )
        return
    render.show(f"campaign {prepared.campaign.name}: {prepared.sizes()}")
    render.show_table(("", "expected", "largest", "limit"), rows(prepared, pace), indent=2)
    render.show(
        f"  time assumes {pace.call_seconds:g} s a call, {pace.decision_seconds:g} s a decision on one core, "
        f"{pace.workers} workers x {pace.slots} slots; repeated attempts come on top"
    )


def rows(prepared: Prepared, pace: Pace) -> list[tuple[str, str | None, str | None, str | None]]:
    plan, budget = prepared.plan, prepared.campaign.budget
    hours = budget.wall_clock_seconds
    return [
        ("training episodes", None, render.count(plan.training_episodes), None),
        ("validation episodes", None, render.count(plan.validation_episodes), None),
        ("evaluation episodes", None, render.count(plan.evaluation_episodes), None),
        ("episodes", None, render.count(plan.episodes), render.count(budget.episodes)),
        ("model calls", render.count(plan.expected_calls), render.count(plan.largest_calls), None),
        ("tokens", render.count(plan.expected_tokens), render.count(plan.largest_tokens), render.count(budget.tokens)),
        ("cost", render.usd(plan.expected_usd), render.usd(plan.largest_usd), render.usd(budget.usd)),
        ("time", render.duration(pace.seconds(plan)), None, None if hours is None else render.duration(hours)),
    ]
