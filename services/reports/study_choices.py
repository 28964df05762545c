"""How choices of models move while learners train (paper, Figure 6)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from services.core.studies.study import Row
from services.reports.policies import COORDINATOR
from services.reports.records import CampaignFacts, CurveFigure
from services.reports.studies import StudyFacts


@dataclass(frozen=True)
class ChoiceLine:
    """One learner under one seed.

    Attributes:
        statement: what the paper says of it.
        first, last: entropy of the models' shares of a generation's turns, as a part of the largest possible.
        released: the same of the released vector's held-out turns.
        roles: the same of the roles in those turns.
        most: the model that was chosen most in those, and its share.
    """

    label: str
    seed: int
    statement: str
    curve: tuple[CurveFigure, ...]
    first: float | None = None
    last: float | None = None
    released: float | None = None
    roles: float | None = None
    most: tuple[str, float] | None = None
    remark: str = ""


def choices_of(facts: StudyFacts) -> tuple[ChoiceLine, ...]:
    """Return every learner's choices, one line for each seed; then what was left out."""
    lines = [choice_line(facts, row, seed) for row in facts.rows for seed in facts.seeds]
    left = [
        ChoiceLine(line.label, facts.seeds[0], "", (), remark=f"left out: {line.reason}") for line in facts.left_out
    ]
    return (*lines, *left)


def choice_line(facts: StudyFacts, row: Row, seed: int) -> ChoiceLine:
    campaign = facts.campaign(row, seed)
    statement = facts.study.paper.statements.get(row.paper or "", "")
    if campaign.facts is None or not campaign.facts.curve:
        return ChoiceLine(row.label, seed, statement, (), remark=f"campaign {campaign.state}, no generation to show")
    curve, models = campaign.facts.curve, len(facts.models)
    first, last = (entropy_share(point.model_share, models) for point in (curve[0], curve[-1]))
    shares = released_shares(campaign.facts, "model")
    roles = released_shares(campaign.facts, "role")
    name = max(shares, key=lambda each: shares[each], default=None)
    return ChoiceLine(
        row.label,
        seed,
        statement,
        curve,
        first,
        last,
        entropy_share(shares, models) if shares else None,
        entropy_share(roles, len(campaign.facts.roles)) if roles else None,
        None if name is None else (name, shares[name]),
    )


def released_shares(facts: CampaignFacts, field: Literal["model", "role"]) -> dict[str, float]:
    """Return the models' or roles' shares of the coordinator's held-out turns; empty before there are any."""
    turns: Counter[str] = Counter()
    for choice in facts.choices:
        if choice.policy == COORDINATOR:
            turns[choice.model if field == "model" else choice.role] += choice.turns
    return {name: count / turns.total() for name, count in turns.items()}


def entropy_share(shares: Mapping[str, float], parts: int) -> float:
    """Return the entropy of shares divided by that of ``parts`` equal ones: 1 is uniform, 0 is one part only."""
    if parts < 2:
        return 0.0
    return abs(sum(share * math.log(share) for share in shares.values() if share > 0)) / math.log(parts)
