"""The page of a study: one file without scripts or outside resources, its plot and CSV beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from services.core.statistics.intervals import Interval
from services.core.studies.study import Measure, labels_of
from services.reports.markup import PAGE, note, picture, section, table
from services.reports.studies import (
    MISSING,
    Direction,
    Family,
    Line,
    StudyCampaign,
    StudyFacts,
    lines_of,
    shown,
    signed,
)
from services.reports.study_choices import ChoiceLine, choices_of
from services.reports.study_files import choices_csv, comparison_csv
from services.reports.study_plots import by_difference, choices, side_by_side
from services.reports.style import STYLE

PLOT = "plot.png"
WIDER = "main { max-width: 72rem; }"
TO = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}"
LEVELS = (
    "Other models, other problems and another budget than in the paper: the levels of the two sides cannot be "
    "compared, only the order of the lines and the direction of their differences."
)
INTERVALS = (
    "Intervals are 95 %. Differences are paired by problem: all campaigns have the same held-out problems, and "
    "with one seed the same episode seeds. With one training of each line the interval says how sure the "
    "difference between these two vectors is, not how another training would end. Nothing corrects for the number "
    "of lines."
)
SEVERAL = (
    "Intervals are 95 % of a bootstrap over trainings and problems at once; with few seeds they are rough and "
    "rather too narrow. Differences are paired by seed and problem."
)


EVENNESS = (
    "Evenness of the models' shares of all turns: their entropy divided by that of equal shares; 1 is uniform, 0 "
    "is one model only. 'First' and 'last' are the first and the last generation's training episodes, 'held-out' "
    "is the released vector's evaluation, 'roles' the same of its roles. Random search draws new vectors in each "
    "generation: its training shares are those of chance vectors."
)


def write(facts: StudyFacts, folder: Path) -> Path:
    """Write ``index.html``, the plot and the CSV into ``folder`` (made if absent) and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    if facts.study.measure is Measure.CHOICES:
        moved = choices_of(facts)
        name, content, plot = "choices.csv", choices_csv(moved), choices(moved, facts.models) if shows(moved) else None
        parts = choice_parts(moved, plot)
    else:
        lines = lines_of(facts)
        name, content, plot = "comparison.csv", comparison_csv(facts, lines), side_by_side(facts, lines)
        parts = comparison_parts(facts, lines, plot)
    (folder / name).write_text(content, encoding="utf-8")
    if plot is not None:
        (folder / PLOT).write_bytes(plot)
    page = folder / "index.html"
    page.write_text(document(facts, parts), encoding="utf-8")
    return page


def shows(lines: Sequence[ChoiceLine]) -> bool:
    return any(line.curve for line in lines)


def document(facts: StudyFacts, parts: Iterable[str]) -> str:
    """Return the page; every text that comes from a campaign is escaped."""
    study = facts.study
    title = f"{study.title} on {facts.base}"
    body = [
        f"<h1>{escape(title)}</h1>",
        note(f"The paper: TRINITY, arXiv 2512.04695v3, {study.paper.source}."),
        f"<p class=lead>{escape(' '.join([study.question, *answers(facts)]))}</p>",
        *parts,
        section("What the paper's figures leave open", [items(study.paper.conflicts)]),
        section("Campaigns", [campaign_table(facts), left_out(facts)]),
        section("Reproduce", [f"<pre>{escape(commands(facts))}</pre>"]),
    ]
    return PAGE.format(title=escape(title), style=STYLE + WIDER, body="\n".join(body))


def answers(facts: StudyFacts) -> list[str]:
    """Return what a hurried reader takes away: counts of differences, and what is missing."""
    found = []
    if facts.study.measure is not Measure.CHOICES:
        told = [line.direction for line in lines_of(facts) if line.direction is not None]
        if told:
            counts = ", ".join(f"{told.count(each)} {each.value}" for each in Direction if each in told)
            found.append(f"Differences that both the paper and this base have: {counts}.")
    if missing := facts.missing():
        found.append(f"{len(missing)} of {len(facts.campaigns)} campaigns have no result yet.")
    return found


def comparison_parts(facts: StudyFacts, lines: Sequence[Line], plot: bytes) -> list[str]:
    notes = [LEVELS, INTERVALS if len(facts.seeds) == 1 else SEVERAL, *facts.study.captions]
    table_of_paper = facts.study.paper
    rows = [(name, *(shown(figure, facts) for figure in figures)) for name, figures in table_of_paper.rows.items()]
    paper = table(("line", *table_of_paper.columns), rows)
    families = sorted({family for line in lines for family in line.families or ()})
    ours = [line for line in lines if line.families]
    rows = [(line.label, *(family_text((line.families or {}).get(name), facts) for name in families)) for line in ours]
    what = "differences over the benchmarks with figures" if by_difference(lines) else "averages over its benchmarks"
    caption = f"{facts.study.paper.source}, {what}, beside {facts.base}."
    return [
        section("Comparison", [main_table(facts, lines), picture({PLOT: plot}, PLOT, caption), items(notes)]),
        section("The paper by benchmark", [paper]),
        section("Ours by family", [table(("line", *families), rows)] if families else []),
        section("Ours by seed", [seed_table(facts, lines)] if len(facts.seeds) > 1 else []),
    ]


def main_table(facts: StudyFacts, lines: Sequence[Line]) -> str:
    columns = (
        "line",
        "paper, average",
        "its difference",
        "ours",
        "95 % interval",
        "our difference",
        "95 % interval",
        "n",
        "direction",
    )
    rows = [
        (
            line.label,
            shown(line.paper_average, facts),
            signed(line.paper_difference, facts),
            shown(None if line.ours is None else line.ours.estimate, facts),
            span(line.ours, facts),
            signed(None if line.difference is None else line.difference.estimate, facts),
            signed_span(line.difference, facts),
            f"{line.n}" if line.n else MISSING,
            line.remark or (line.direction.value if line.direction is not None else ""),
        )
        for line in lines
    ]
    return table(columns, rows, [index == 0 for index in range(len(rows))])


def seed_table(facts: StudyFacts, lines: Sequence[Line]) -> str:
    rows = [
        (line.label, *(shown((line.by_seed or {}).get(seed), facts) for seed in facts.seeds))
        for line in lines
        if line.by_seed
    ]
    return table(("line", *(f"seed {seed}" for seed in facts.seeds)), rows)


def choice_parts(lines: Sequence[ChoiceLine], plot: bytes | None) -> list[str]:
    rows = [
        (
            line.label,
            f"{line.seed}",
            line.statement,
            *(
                MISSING if each is None else f"{each:.2f}"
                for each in (line.first, line.last, line.released, line.roles)
            ),
            line.remark or ("" if line.most is None else f"{line.most[0]} {100 * line.most[1]:.0f} %"),
        )
        for line in lines
    ]
    columns = ("learner", "seed", "the paper says", "first", "last", "held-out", "roles", "most chosen, held-out")
    plots = {} if plot is None else {PLOT: plot}
    caption = "Models chosen in training episodes, by generation."
    return [section("Choices", [table(columns, rows), picture(plots, PLOT, caption), note(EVENNESS)])]


def campaign_table(facts: StudyFacts) -> str:
    """Return the campaigns with what they have spent; of several the last row is all of them."""
    columns = ("campaign", "for", "seed", "state", "episodes booked", "before evaluation", "calls", "tokens", "USD")
    own = facts.campaigns
    rows = [(one.name, labels_of(facts.lines_from(one)), f"{one.seed}", state(one), *spent([one])) for one in own]
    if len(own) > 1:
        rows.append(("all", f"{len(own)} campaigns", "", "", *spent(own)))
    return table(columns, rows, [one[0] == "all" for one in rows])


def spent(campaigns: Sequence[StudyCampaign]) -> tuple[str, ...]:
    """Return sums: episodes booked, those planned before the evaluation, calls, tokens, USD."""
    counts = [(one.episodes, one.booked, one.calls, one.tokens) for one in campaigns]
    return (*(f"{sum(own):,}" for own in zip(*counts, strict=True)), f"{sum(one.usd for one in campaigns):.4f}")


def state(campaign: StudyCampaign) -> str:
    parts = (campaign.state, campaign.reason if campaign.facts is None else None, campaign.advice)
    return "; ".join(part for part in parts if part)


def left_out(facts: StudyFacts) -> str:
    return items([f"Left out: {line.label}: {line.reason}" for line in facts.left_out])


def commands(facts: StudyFacts) -> str:
    seeds = f" --seeds {','.join(map(str, facts.seeds))}" if facts.seeds != (facts.seed,) else ""
    whole = f"manage.py reproduce {facts.study.name} {facts.file}{seeds}"
    return "\n".join([f"{whole} --plan   # the price", f"{whole}          # run what is missing, write this page"])


def items(texts: Sequence[str]) -> str:
    return "<ul class=note>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>" if texts else ""


def span(interval: Interval | None, facts: StudyFacts) -> str:
    return MISSING if interval is None else f"{shown(interval.low, facts)}{TO}{shown(interval.high, facts)}"


def family_text(family: Family | None, facts: StudyFacts) -> str:
    if family is None:
        return MISSING
    return f"{shown(family.figure.estimate, facts)} ({span(family.figure, facts)}; n {family.n})"


def signed_span(interval: Interval | None, facts: StudyFacts) -> str:
    return MISSING if interval is None else f"{signed(interval.low, facts)}{TO}{signed(interval.high, facts)}"
