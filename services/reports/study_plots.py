"""The plots of a study: the paper's figures beside ours, and the choices of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from services.core.statistics.intervals import Interval
from services.core.studies.study import Measure
from services.reports.plots import ACCENT, INK, PALETTE, QUIET, WIDTH, finish, png, share_of
from services.reports.studies import Line, StudyFacts, shown, signed
from services.reports.study_choices import ChoiceLine

LONGEST_LABEL = 34


def side_by_side(facts: StudyFacts, lines: Sequence[Line]) -> bytes:
    """Bars of the paper and of ours with intervals, one row for each line that has either; each side has its own scale.

    Where the paper gives single figures only the bars are differences to the reference.
    """
    return png(two_sides(facts, lines))


def two_sides(facts: StudyFacts, lines: Sequence[Line]) -> Figure:
    differences = by_difference(lines)
    drawn = [Bar(line, differences) for line in lines]
    drawn = [each for each in drawn if each.ours is not None or each.paper is not None]
    drawn.reverse()
    figure = Figure(figsize=(WIDTH + 1.5, 1.2 + 0.34 * len(drawn)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, each in enumerate(drawn):
        text = signed if differences else shown
        bar(left, place, each.paper, QUIET, text(each.paper, facts))
        value = None if each.ours is None else each.ours.estimate
        bar(right, place, value, ACCENT, text(value, facts))
        if each.ours is not None:
            limits = [each.ours.low, each.ours.high]
            right.plot(limits, [place, place], color=INK, linewidth=1.2, marker="|", markersize=7)
    left.set_yticks(range(len(drawn)), [short(each.line.label) for each in drawn], fontsize=8)
    left.set_title("The paper: its models and benchmarks", loc="left", fontsize=10, color=INK)
    right.set_title("Ours, with 95 % intervals", loc="left", fontsize=10, color=INK)
    for axes in (left, right):
        if not differences:
            axes.set_xlim(left=0, right=1.0 if facts.study.measure is Measure.REWARD else None)
        axes.set_ylim(-0.6, len(drawn) - 0.4)
        axes.set_xlabel(facts.study.measure.value + (", difference to the first line" if differences else ""))
        finish(axes, grid="x")
    return figure


def by_difference(lines: Sequence[Line]) -> bool:
    """Return whether the paper gives single figures only, of which there are no comparable averages."""
    return any(line.paper_difference is not None and line.paper_average is None for line in lines)


@dataclass(frozen=True)
class Bar:
    """What of a line is drawn: its levels, or its differences."""

    line: Line
    differences: bool

    @property
    def paper(self) -> float | None:
        return self.line.paper_difference if self.differences else self.line.paper_average

    @property
    def ours(self) -> Interval | None:
        return self.line.difference if self.differences else self.line.ours


def bar(axes: Axes, place: int, value: float | None, colour: str, text: str) -> None:
    """Draw a bar, and its figure beside the axes, where no interval covers it; what is not known is a dash alone."""
    if value is not None:
        axes.barh(place, value, color=colour, height=0.66, alpha=0.6)
    beside = axes.get_yaxis_transform()
    axes.text(1.01, place, text, transform=beside, va="center", fontsize=7.5, color=INK)


def short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def choices(lines: Sequence[ChoiceLine], models: Sequence[str]) -> bytes:
    """Shares of the models by generation, one panel for each learner and seed."""
    shown = [line for line in lines if line.curve]
    figure = Figure(figsize=(WIDTH, 2.1 * len(shown) + 0.5), layout="constrained")
    for axes, line in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
        stack(axes, line, models)
        axes.set_title(f"{line.label} (seed {line.seed})", loc="left", fontsize=10, color=INK)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False)
    figure.axes[-1].set_xlabel("generation")
    return png(figure)


def stack(axes: Axes, line: ChoiceLine, models: Sequence[str]) -> None:
    at = [point.generation for point in line.curve]
    below = [0.0] * len(at)
    for index, name in enumerate(models):
        parts = [share_of(point.model_share, name) for point in line.curve]
        colour, hatch = PALETTE[index % len(PALETTE)], None if index < len(PALETTE) else "//"
        axes.bar(at, parts, 1.0, bottom=below, label=name, color=colour, hatch=hatch, linewidth=0)
        below = [low + part for low, part in zip(below, parts, strict=True)]
    axes.set_xlim(at[0] - 0.5, at[-1] + 0.5)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(axes)
