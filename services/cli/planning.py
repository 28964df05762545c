"""``campaign plan``: what a campaign will take, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from services.cli import candidates, render
from services.cli.submission import Prepared
from services.config.settings import LOCAL_PREFIX, Settings
from services.core.ledger.plan import Plan
from services.encoder.catalogue import architecture


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
NEW_TOKENS = 200  # of a turn, read once per decision
CORE_OPERATIONS = 1e11  # a second, of one core with AVX-512 in float32
UNKNOWN_DECISION_SECONDS = 0.5  # of an encoder whose shapes are not known


def usual_call_seconds(prepared: Prepared) -> float:
    """Return the mean latency of the local pools when every model is in one, else an assumption about providers."""
    names = [(model.base_url or "").removeprefix(LOCAL_PREFIX) for model in prepared.campaign.pool]
    if not all(name in prepared.pools for name in names):
        return REMOTE_CALL_SECONDS
    return sum(prepared.pools[name].latency.mean_ms for name in names) / len(names) / 1000


def usual_decision_seconds(prepared: Prepared) -> float:
    """Return an estimate for a decision that no cache answers: a turn's new tokens through all layers, on one core."""
    encoder = prepared.campaign.encoder
    decoder = architecture(encoder.model, encoder.revision).decoder
    if decoder is None:
        return UNKNOWN_DECISION_SECONDS
    attention = 2 * decoder.head_dim * (decoder.heads + decoder.kv_heads)
    weights = decoder.layers * prepared.campaign.hidden_size * (attention + 3 * decoder.intermediate)
    return 2 * NEW_TOKENS * weights / CORE_OPERATIONS


def usual_pace(
    prepared: Prepared, settings: Settings, call_seconds: float | None = None, decision_seconds: float | None = None
) -> Pace:
    """Return the assumptions about time on this machine's workers; what is not given is the usual."""
    call = usual_call_seconds(prepared) if call_seconds is None else call_seconds
    decision = usual_decision_seconds(prepared) if decision_seconds is None else decision_seconds
    return Pace(call, decision, settings.workers, settings.worker_slots, settings.encoder_parallel)


class Fit(StrEnum):
    """Whether the campaign stays under one of its limits; one that does not ends as ``budget_exhausted``."""

    FITS = "fits"
    MAY_STOP = "may stop"  # at the largest figures, not at the expected ones
    WILL_STOP = "will stop"  # at the expected figures already


@dataclass(frozen=True)
class Row:
    """One kind of spending: what is expected, what is the largest, the limit (None: unlimited), and how to print it."""

    name: str
    expected: Decimal | int | float | None
    largest: Decimal | int | None
    limit: Decimal | int | float | None
    text: Callable[[Any], str]

    @property
    def fit(self) -> Fit:
        if self.limit is None:
            return Fit.FITS
        if self.expected is not None and self.expected > self.limit:
            return Fit.WILL_STOP
        return Fit.MAY_STOP if self.largest is not None and self.largest > self.limit else Fit.FITS

    def cells(self) -> tuple[str, ...]:
        figures = (self.expected, self.largest, self.limit)
        return (self.name, *(render.MISSING if figure is None else self.text(figure) for figure in figures))


def show(prepared: Prepared, pace: Pace, *, as_json: bool) -> None:
    """Print the plan; largest figures are what the budget is held against, expected ones are rough."""
    plan, budget = prepared.plan, prepared.campaign.budget
    held = limited(prepared, pace)
    if as_json:
        problems = {split.value: len(items) for split, items in prepared.problems.items()}
        render.show_json(
            {"name": prepared.campaign.name, "plan": render.plain(plan) | {"episodes": plan.episodes}}
            | {"problems": problems, "budget": budget, "fit": {row.name: row.fit for row in held}}
            | {"preset": candidates.preset_text(prepared.campaign)}
            | {"encoder": prepared.campaign.encoder, "head": prepared.campaign.head}
            | {"weight": prepared.campaign.weight, "max_failure_share": prepared.campaign.max_failure_share}
            | {"expected_seconds": pace.seconds(plan), "assumptions": pace}
        )
        return
    render.show(f"campaign {prepared.campaign.name}: {prepared.sizes()}")
    for heading, text in candidates.lines(prepared.campaign):
        render.show(f"  {heading:<12}{render.printable(text)}")
    rows = [row.cells() for row in (*parts(plan), *held)]
    render.show_table(("", "expected", "largest", "limit"), rows, indent=2)
    render.show(
        f"  time assumes {pace.call_seconds:g} s a call, {pace.decision_seconds:.3g} s a decision on one core "
        f"({NEW_TOKENS} new tokens), "
        f"{pace.workers} workers x {pace.slots} slots; repeated attempts come on top"
    )
    for row in held:
        if row.fit is not Fit.FITS:
            figures = "expected" if row.fit is Fit.WILL_STOP else "largest"
            render.show(f"  the limit of {row.name} is below the {figures} figure: the campaign {row.fit} there")


def parts(plan: Plan) -> list[Row]:
    """Return what the episodes are made of."""
    return [
        Row("labelling episodes", None, plan.labelling_episodes, None, render.count),
        Row("training episodes", None, plan.training_episodes, None, render.count),
        Row("validation episodes", None, plan.validation_episodes, None, render.count),
        Row("evaluation episodes", None, plan.evaluation_episodes, None, render.count),
    ]


def limited(prepared: Prepared, pace: Pace) -> list[Row]:
    """Return the five kinds of spending that a budget limits."""
    plan, budget = prepared.plan, prepared.campaign.budget
    return [
        Row("episodes", plan.episodes, plan.episodes, budget.episodes, render.count),
        Row("model calls", plan.expected_calls, plan.largest_calls, budget.calls, render.count),
        Row("tokens", plan.expected_tokens, plan.largest_tokens, budget.tokens, render.count),
        Row("cost", plan.expected_usd, plan.largest_usd, budget.usd, render.usd),
        Row("time", pace.seconds(plan), None, budget.wall_clock_seconds, render.duration),
    ]
