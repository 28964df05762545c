"""A study's results on the terminal, as JSON, and as a page with its plot and CSV."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from services.cli import render
from services.core.statistics.intervals import Interval
from services.core.studies.study import Measure
from services.reports import study_page
from services.reports.studies import Line, StudyFacts, lines_of, shown, signed
from services.reports.study_choices import choices_of

COLUMNS = ("line", "paper", "difference", "ours", "low", "high", "difference", "low", "high", "n", "")


def show(facts: StudyFacts, folder: Path, *, as_json: bool) -> None:
    """Write the page and print the comparison, and what is missing with how to go on."""
    page = study_page.write(facts, folder)
    if as_json:
        render.show_json(document(facts, page))
        return
    study = facts.study
    render.show(f"\n{study.title}: {study.paper.source} beside {facts.base}")
    if study.measure is Measure.CHOICES:
        show_choices(facts)
    else:
        rows = [cells(line, facts) for line in lines_of(facts)]
        render.show_table(COLUMNS, rows, indent=2)
    for sentence in study_page.answers(facts):
        render.show(f"  {sentence}")
    render.show(f"  {taken(facts)}")
    for campaign in facts.missing():
        render.show(f"  {campaign.name}: {render.printable(study_page.state(campaign))}")
    render.show(f"\nreport: {page}")


def cells(line: Line, facts: StudyFacts) -> tuple[str, ...]:
    """Return a line of the table: the paper's average and difference, then ours with 95 % intervals."""
    return (
        line.label,
        shown(line.paper_average, facts),
        signed(line.paper_difference, facts),
        *(shown(figure, facts) for figure in three(line.ours)),
        *(signed(figure, facts) for figure in three(line.difference)),
        f"{line.n}" if line.n else render.MISSING,
        line.remark or (line.direction.value if line.direction is not None else ""),
    )


def taken(facts: StudyFacts) -> str:
    """Return what all campaigns booked and took, in earlier calls too; one that stands still has booked more."""
    own = facts.campaigns
    episodes, _, calls, tokens, _ = study_page.spent(own)
    usd = render.usd(sum((one.usd for one in own), Decimal(0)))
    return f"{len(own)} campaigns booked {episodes} episodes and took {calls} calls, {tokens} tokens and {usd} in all."


def three(interval: Interval | None) -> tuple[float | None, ...]:
    return (None, None, None) if interval is None else (interval.estimate, interval.low, interval.high)


def show_choices(facts: StudyFacts) -> None:
    rows = [
        (
            line.label,
            line.seed,
            render.figure(line.first, 2),
            render.figure(line.last, 2),
            render.figure(line.released, 2),
            render.figure(line.roles, 2),
            line.remark or ("" if line.most is None else f"{line.most[0]} {render.share(line.most[1])}"),
            line.statement,
        )
        for line in choices_of(facts)
    ]
    columns = (
        "learner",
        "seed",
        "evenness first",
        "last",
        "held-out",
        "roles",
        "most chosen, held-out",
        "the paper says",
    )
    render.show_table(columns, rows, indent=2)


def document(facts: StudyFacts, page: Path) -> dict[str, Any]:
    study = facts.study
    moved = study.measure is Measure.CHOICES
    lines: Any = (
        choices_of(facts) if moved else [vars(line) | {"direction": line.direction} for line in lines_of(facts)]
    )
    return {
        "study": study.name,
        "measure": study.measure,
        "paper": {"source": study.paper.source, "conflicts": study.paper.conflicts},
        "base": facts.base,
        "seeds": facts.seeds,
        "lines": lines,
        "campaigns": [
            {name: value for name, value in vars(one).items() if name not in ("facts", "keys")}
            for one in facts.campaigns
        ],
        "page": page,
    }
