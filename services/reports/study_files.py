"""A study's figures as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from services.reports.studies import Line, StudyFacts
from services.reports.study_choices import ChoiceLine

COLUMNS = ("line", "whose", "column", "measure", "value", "low", "high", "n", "seeds")
ALL = "all"


def comparison_csv(facts: StudyFacts, lines: Sequence[Line]) -> str:
    """Return one row for every figure: the paper's by benchmark, ours by family, and all differences."""
    measure = facts.study.measure.value
    seeds = " ".join(str(seed) for seed in facts.seeds)
    rows = [
        (line.label, whose, column, f"{measure}{kind}", *figures, seeds if whose == "ours" else "")
        for line in lines
        for whose, column, kind, figures in figures_of(line)
    ]
    return text_of(COLUMNS, rows)


def figures_of(line: Line) -> Iterator[tuple[str, str, str, tuple[object, ...]]]:
    """Yield (whose, column, kind, (value, low, high, n)) of what is known of a line."""
    for column, figure in line.paper.items():
        if figure is not None:
            yield "paper", column, "", (figure, "", "", "")
    if line.paper_average is not None:
        yield "paper", ALL, "", (line.paper_average, "", "", "")
    if line.paper_difference is not None:
        yield "paper", ALL, " - reference", (line.paper_difference, "", "", "")
    for name, family in (line.families or {}).items():
        yield "ours", name, "", (family.figure.estimate, family.figure.low, family.figure.high, family.n)
    for kind, interval in (("", line.ours), (" - reference", line.difference)):
        if interval is not None:
            yield "ours", ALL, kind, (interval.estimate, interval.low, interval.high, line.n)


def choices_csv(lines: Sequence[ChoiceLine]) -> str:
    """Return the models' shares of every generation."""
    rows = [
        (line.label, line.seed, point.generation, model, share)
        for line in lines
        for point in line.curve
        for model, share in point.model_share.items()
    ]
    return text_of(("learner", "seed", "generation", "model", "share"), rows)


def text_of(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([columns, *rows])
    return buffer.getvalue()
