"""What the rivals of a campaign's evaluation will cost at most and roughly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from services.core.baselines.calls import PlannedCall, planned_calls
from services.core.baselines.coordinator_prompt import coordinator_messages
from services.core.baselines.wording import LONGEST
from services.core.campaign import Campaign
from services.core.ledger.assumptions import BYTES_PER_TOKEN, NOTE_BYTES, TYPICAL_OUTPUT_TOKENS
from services.core.ledger.budget import bound_usage
from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.policy.layout import Layout
from services.core.protocol.evidence import LONGEST as LONGEST_EVIDENCE
from services.core.protocol.evidence import Evidence
from services.core.protocol.prompts import messages_for
from services.core.protocol.transcript import Transcript
from services.core.rivals import RivalKind, RivalSpec


@dataclass(frozen=True)
class Spending:
    """Calls, their prompt and completion tokens together, and what they cost."""

    calls: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)

    def plus(self, other: Spending, times: int) -> Spending:
        return Spending(
            self.calls + other.calls * times, self.tokens + other.tokens * times, self.usd + other.usd * times
        )


@dataclass(frozen=True)
class RivalsPlan:
    """Episodes of all rivals, and what these will cost without a judge's ratings."""

    episodes: int = 0
    largest: Spending = Spending()
    expected: Spending = Spending()


def rivals_plan(campaign: Campaign, question_bytes: Sequence[int]) -> RivalsPlan:
    """Return the plan of a campaign's rivals, with the assumptions of ``plan.Plan``.

    Args:
        campaign: the resolved specification.
        question_bytes: UTF-8 length of each question it may use.
    """
    longest = max(question_bytes, default=0)
    mean = sum(question_bytes) // max(1, len(question_bytes))
    most = campaign.protocol.max_output_tokens
    usual = min(TYPICAL_OUTPUT_TOKENS, most)
    each = campaign.evaluation.problems * campaign.evaluation.repeats
    plan = RivalsPlan(each * len(campaign.evaluation.rivals))
    for spec in campaign.evaluation.rivals:
        calls = planned_calls(spec, len(campaign.pool), campaign.protocol)
        # A conversation ends after half its turns in the mean; all other methods make every call.
        likely = calls[: 2 * ((len(calls) // 2 + 1) // 2)] if spec.kind is RivalKind.LLM_COORDINATOR else calls
        for call in calls:
            usage = _usage(campaign, call, longest, most, 1)
            usd = max(price.cost(usage) for price in _prices(campaign, spec, call))
            plan = replace(plan, largest=plan.largest.plus(Spending(1, usage.total, usd), each))
        for call in likely:
            usage = _usage(campaign, call, mean, usual, BYTES_PER_TOKEN)
            prices = _prices(campaign, spec, call)
            usd = sum((price.cost(usage) for price in prices), Decimal(0)) / len(prices)
            plan = replace(plan, expected=plan.expected.plus(Spending(1, usage.total, usd), each))
    return plan


def _usage(campaign: Campaign, call: PlannedCall, question_bytes: int, output_tokens: int, per_token: int) -> Usage:
    """Return the tokens of one call; ``per_token`` bytes of a prompt make one."""
    empty = Transcript("x" * question_bytes)
    if call.coordinates:
        described = {model.name: model.description for model in campaign.pool}
        prompts = [coordinator_messages(empty, described, campaign.protocol.roles, campaign.protocol.max_turns)]
    else:
        evidence = Evidence(False, False, "x" * BYTES_PER_TOKEN * LONGEST_EVIDENCE)
        prompts = [messages_for(role, empty, campaign.protocol, evidence, LONGEST) for role in campaign.protocol.roles]
    frame = max(bound_usage(prompt, 0).prompt_tokens for prompt in prompts)
    notes = call.notes * (BYTES_PER_TOKEN * output_tokens + NOTE_BYTES)
    return Usage((frame + notes) // per_token, output_tokens * call.multiple, estimated=True)


def _prices(campaign: Campaign, spec: RivalSpec, call: PlannedCall) -> list[Price]:
    """Return the prices of the models that a call may be made of."""
    agents = Layout.of_campaign(campaign).agents
    if call.place is not None:
        return [campaign.pool[agents[call.place]].price]
    if spec.model is not None and (call.coordinates or spec.kind is not RivalKind.LLM_COORDINATOR):
        return [model.price for model in campaign.pool if model.name == spec.model]
    return [campaign.pool[agent].price for agent in agents]
