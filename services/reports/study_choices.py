"""How choices of models move while learners train (paper, Figure 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from services.core.studies.study import Row
from services.reports.records import CurveFigure
from services.reports.studies import StudyFacts


@dataclass(frozen=True)
class ChoiceLine:
    """One learner under one seed.

    Attributes:
        statement: what the paper says of it.
        first, last: entropy of the models' shares of a generation's turns, as a part of the largest possible.
        most: the model that was chosen most in the last generation, and its share.
    """

    label: str
    seed: int
    statement: str
    curve: tuple[CurveFigure, ...]
    first: float | None = None
    last: float | None = None
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
    shares = curve[-1].model_share
    name = max(shares, key=lambda each: shares[each])
    first, last = (entropy_share(point.model_share, models) for point in (curve[0], curve[-1]))
    return ChoiceLine(row.label, seed, statement, curve, first, last, (name, shares[name]))


def entropy_share(shares: Mapping[str, float], models: int) -> float:
    """Return the entropy of shares divided by that of ``models`` equal ones: 1 is uniform, 0 is one model only."""
    if models < 2:
        return 0.0
    return -sum(part * math.log(part) for part in shares.values() if part > 0) / math.log(models)
