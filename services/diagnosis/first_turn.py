"""What the diagnosed head does with a question before anybody has answered, exactly: no episode is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import Output
from services.core.policy.layout import Layout
from services.core.policy.selection import softmax
from services.core.statistics.intervals import mean_interval
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence
from services.diagnosis.states import Read
from services.reports.diagnosis import Cell, Section, Table, missing

TITLE = "First decision"
Matrix = NDArray[np.float64]


def section(evidence: Evidence, found: Read) -> Section:
    """Return the mean probability of every agent and role at the first turn, in all and by family."""
    n, layout = len(found.logits), evidence.layout
    names = [evidence.agents[index] for index in layout.agents]
    names += [role.value for role in layout.allowed] if layout.role_rows else []
    if not n:
        return Section(TITLE, tuple(missing(f"first turn: {name}", "no questions") for name in names))
    chances = probabilities(found.logits, layout)
    shown = [
        figures.of(f"first turn: {name}", mean_interval(column.tolist(), evidence.seed), n, "questions", remark(layout))
        for name, column in zip(names, chances.T, strict=True)
    ]
    rows: list[tuple[Cell, ...]] = []
    for family in sorted(set(found.families)):
        own = chances[[each == family for each in found.families]]
        cells = (figures.span(mean_interval(column.tolist(), evidence.seed)) for column in own.T)
        rows.append((family, len(own), *cells))
    table = Table("First turn by family (95 % over questions)", ("family", "n", *names), tuple(rows))
    return Section(TITLE, tuple(shown), (table,))


def probabilities(logits: Matrix, layout: Layout) -> Matrix:
    """Return the probability of every agent, then of every role, shape (questions, rows); 0 and 1 for argmax."""
    agents = len(layout.agents)
    parts = [part for part in np.split(logits, [agents], axis=1) if part.shape[1]]
    if layout.spec.output is Output.ARGMAX:
        return np.concatenate([np.eye(part.shape[1])[part.argmax(axis=1)] for part in parts], axis=1)
    return np.concatenate([np.apply_along_axis(softmax, 1, part) for part in parts], axis=1)


def remark(layout: Layout) -> str:
    if layout.spec.output is Output.ARGMAX:
        return "share of questions at which its logit is the largest"
    return "mean probability, exact for each question"
