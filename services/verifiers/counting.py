"""False accepts and false rejects by model and use of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.core.campaign import Campaign, EvidenceUse
from services.core.protocol.verdict import Verdict
from services.core.statistics.intervals import wilson
from services.verifiers.asking import Answered
from services.verifiers.planting import RIGHT


def rates(campaign: Campaign, answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """Return one row per model and use of evidence, in the order of the pool and of the uses."""
    agents = sorted({each.question.agent for each in answered})
    uses = [use for use in EvidenceUse if any(each.question.use is use for each in answered)]
    rows = []
    for agent in agents:
        for use in uses:
            some = [each for each in answered if each.question.agent == agent and each.question.use is use]
            rows.append({"model": campaign.pool[agent].name, "evidence": use.value} | counted(some))
    return rows


def counted(some: Sequence[Answered]) -> dict[str, Any]:
    """Return the rates of one model; what got no reply takes no part, an unclear verdict counts as REVISE."""
    judged = [each for each in some if each.verdict is not None]
    right = [each.verdict is not Verdict.ACCEPT for each in judged if each.question.planted.right]
    kinds = sorted({each.question.planted.kind for each in judged} - {RIGHT})
    wrong = {
        kind: [each.verdict is Verdict.ACCEPT for each in judged if each.question.planted.kind == kind]
        for kind in kinds
    }
    return {
        "false_accepts": rate([one for each in wrong.values() for one in each]),
        "false_rejects": rate(right),
        "false_accepts_by_kind": {kind: rate(each) for kind, each in wrong.items()},
        "unclear": sum(each.verdict is Verdict.UNCLEAR for each in judged),
        "by_machine": sum(each.question.call is None for each in judged),
        "no_reply": len(some) - len(judged),
    }


def rate(faults: Sequence[bool]) -> dict[str, Any] | None:
    """Return how often, with Wilson's 95 % interval; None without a single case."""
    if not faults:
        return None
    interval = wilson(sum(faults), len(faults))
    return {"count": sum(faults), "n": len(faults)} | vars(interval)
