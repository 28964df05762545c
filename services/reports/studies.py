"""A study's results: each line of the comparison with the paper's figure, ours, and the difference to the reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

import numpy as np

from services.core.seeds import derive
from services.core.statistics.crossed import crossed_interval
from services.core.statistics.intervals import Interval, mean_interval, paired_difference, wilson
from services.core.studies.study import LeftOut, Measure, Row, Study, Who
from services.reports.records import CampaignFacts, Score

MISSING = "-"

Values = Mapping[str, float]  # problem -> figure


@dataclass(frozen=True)
class StudyCampaign:
    """One campaign of a study.

    Attributes:
        keys: of the variants that it is the campaign of.
        facts: what it found; None unless it is complete.
        advice: how to go on where it is not.
        booked: episodes before the held-out evaluation, as planned.
    """

    name: str
    keys: frozenset[str]
    seed: int
    state: str
    reason: str | None
    advice: str | None
    booked: int
    episodes: int
    calls: int
    tokens: int
    usd: Decimal
    seconds: float
    facts: CampaignFacts | None


@dataclass(frozen=True)
class StudyFacts:
    """A study on a base as its report tells it; ``file`` is the base's campaign file as it was given."""

    study: Study
    base: str
    file: str
    models: tuple[str, ...]
    seed: int
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]
    campaigns: tuple[StudyCampaign, ...]

    def campaign(self, row: Row, seed: int) -> StudyCampaign:
        """Return the campaign that a line is read from."""
        return next(one for one in self.campaigns if one.seed == seed and row.variant.key in one.keys)

    def lines_from(self, campaign: StudyCampaign) -> tuple[Row, ...]:
        """Return the lines that are read from a campaign."""
        return tuple(row for row in self.rows if row.variant.key in campaign.keys)

    def missing(self) -> tuple[StudyCampaign, ...]:
        return tuple(one for one in self.campaigns if one.facts is None)


class Direction(StrEnum):
    """How a difference of ours stands to the paper's; the paper's has no interval, ours has."""

    SAME = "as in the paper"
    OPPOSITE = "the opposite"
    UNTOLD = "cannot be told"


@dataclass(frozen=True)
class Family:
    """Our figure on one family's problems with its 95 % interval."""

    figure: Interval
    n: int


@dataclass(frozen=True)
class Line:
    """One line of the comparison.

    Attributes:
        paper: the paper's figures by column; empty where it has none.
        paper_average: over all columns, None where one is missing.
        paper_difference: to the paper's reference, over the columns that both have.
        ours: with its 95 % interval; None where nothing was measured.
        n: problems.
        difference: to the reference, paired by problem.
        families: ours by family of problems.
        by_seed: ours by seed.
        remark: why there is nothing to read.
    """

    label: str
    paper_row: str | None
    paper: Mapping[str, float | None]
    paper_average: float | None
    paper_difference: float | None
    ours: Interval | None = None
    n: int = 0
    difference: Interval | None = None
    families: Mapping[str, Family] | None = None
    by_seed: Mapping[int, float] | None = None
    remark: str = ""

    @property
    def direction(self) -> Direction | None:
        """Return whether the difference goes the paper's way; None where either is missing."""
        if self.difference is None or not self.paper_difference:
            return None
        if self.difference.low <= 0 <= self.difference.high:
            return Direction.UNTOLD
        return Direction.SAME if (self.difference.estimate > 0) == (self.paper_difference > 0) else Direction.OPPOSITE


def lines_of(facts: StudyFacts) -> tuple[Line, ...]:
    """Return the comparison: the base's lines, then those that it was left without."""
    reference = facts.rows[0]
    own = [line_of(facts, row, reference) for row in facts.rows]
    left = [
        Line(
            line.label,
            line.paper,
            *of_paper(facts.study, line.paper, reference.paper),
            remark=f"left out: {line.reason}",
        )
        for line in facts.left_out
    ]
    return (*own, *left)


def line_of(facts: StudyFacts, row: Row, reference: Row) -> Line:
    """Return a line with all that can be said of it; the seeds without figures are left out."""
    against = row.against if row.against is not None else reference.paper
    paper = of_paper(facts.study, row.paper, against)
    found = {seed: values_of(facts, row, seed) for seed in facts.seeds}
    measured = {seed: values for seed, values in found.items() if values}
    if not measured:
        states = {facts.campaign(row, seed).state for seed in facts.seeds}
        reason = "nothing was measured" if states == {"completed"} else f"campaign {', '.join(sorted(states))}"
        return Line(row.label, row.paper, *paper, remark=reason)
    seed = derive(facts.seed, "study", facts.study.name.value, row.label)
    references = {one: values_of(facts, reference, one) for one in measured} if row is not reference else {}
    return Line(
        row.label,
        row.paper,
        *paper,
        ours=interval_of(list(measured.values()), seed),
        n=len(set().union(*measured.values())),
        difference=difference_of(measured, references, seed),
        families=by_family(facts, row, measured, seed),
        by_seed={one: mean(values.values()) for one, values in measured.items()},
    )


def of_paper(
    study: Study, row: str | None, against: str | None
) -> tuple[dict[str, float | None], float | None, float | None]:
    """Return the paper's figures of a row by column, their average, and the difference to another row."""
    if row is None or row not in study.paper.rows:
        return {}, None, None
    figures = dict(zip(study.paper.columns, study.paper.rows[row], strict=True))
    difference = None if against is None or against == row else study.paper.difference(row, against)
    return figures, study.paper.average(row), difference


def values_of(facts: StudyFacts, row: Row, seed: int) -> Values:
    """Return a line's figure by problem, the mean over its repeats; empty where nothing was measured."""
    campaign = facts.campaign(row, seed)
    scores = () if campaign.facts is None else campaign.facts.scores
    policy = row.policy
    if policy.who is Who.BEST_PER_PROBLEM:
        return best_per_problem(scores, facts.models)
    own = [one for one in scores if one.kind == policy.who.value and policy.name in ("", one.policy)]
    return means(own, facts.study.measure)


def best_per_problem(scores: Sequence[Score], models: Sequence[str]) -> Values:
    """Return the best single model's reward by problem; empty unless every model answered the same problems."""
    singles = [means([one for one in scores if one.kind == "single" and one.policy == name]) for name in models]
    if len({frozenset(values) for values in singles}) != 1:
        return {}
    return {problem: max(values[problem] for values in singles) for problem in singles[0]}


def means(scores: Sequence[Score], measure: Measure = Measure.REWARD) -> Values:
    """Return the mean figure by problem over its repeats; a figure that is not known is left out."""
    found: dict[str, list[float]] = {}
    for score in scores:
        figure = figure_of(score, measure)
        if figure is not None:
            found.setdefault(score.problem, []).append(figure)
    return {problem: mean(own) for problem, own in found.items()}


def figure_of(score: Score, measure: Measure) -> float | None:
    """Return what a measure reads from an episode."""
    if measure is Measure.TOKENS:
        return None if score.effort is None else score.effort.tokens_out
    return score.reward


def mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def interval_of(by_seed: Sequence[Values], seed: int) -> Interval:
    """Return a mean with its interval: over problems for one training, over both for several."""
    if len(by_seed) > 1:
        return crossed_interval(table_of(by_seed), seed)
    figures = list(by_seed[0].values())
    if all(figure in (0.0, 1.0) for figure in figures):
        return wilson(round(sum(figures)), len(figures))
    return mean_interval(figures, seed)


def difference_of(own: Mapping[int, Values], theirs: Mapping[int, Values], seed: int) -> Interval | None:
    """Return the mean difference with its interval, paired by training and problem; None where nothing is paired."""
    pairs = [
        {problem: own[one][problem] - theirs[one][problem] for problem in own[one] if problem in theirs[one]}
        for one in own
        if theirs.get(one)
    ]
    pairs = [pair for pair in pairs if pair]
    if len(pairs) > 1:
        return crossed_interval(table_of(pairs), seed)
    figures = list(pairs[0].values()) if pairs else []
    return paired_difference(figures, [0.0] * len(figures), seed) if figures else None


def table_of(by_seed: Sequence[Values]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the figures, shape (trainings, problems), NaN where there is none."""
    problems = sorted(set().union(*by_seed))
    return np.array([[values.get(problem, np.nan) for problem in problems] for values in by_seed])


def by_family(facts: StudyFacts, row: Row, measured: Mapping[int, Values], seed: int) -> dict[str, Family]:
    """Return the mean by family with its interval; the problems are the same for all trainings."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for training, values in measured.items():
        campaign = facts.campaign(row, training).facts
        family = {score.problem: score.family for score in campaign.scores} if campaign else {}
        for problem, figure in values.items():
            found.setdefault(family[problem], {}).setdefault(training, {})[problem] = figure
    return {
        name: Family(interval_of(list(own.values()), seed), len(set().union(*own.values())))
        for name, own in sorted(found.items())
    }


def shown(value: float | None, facts: StudyFacts) -> str:
    """Return a figure with as many digits as its measure deserves."""
    if value is None:
        return MISSING
    return f"{value:,.0f}" if facts.study.measure is Measure.TOKENS else f"{value:.3f}"


def signed(value: float | None, facts: StudyFacts) -> str:
    if value is None:
        return MISSING
    digits = 0 if facts.study.measure is Measure.TOKENS else 3
    return f"{round(value, digits) + 0.0:+,.{digits}f}"  # adding zero takes the sign off a rounded one
