"""The plots of a study: the paper's figures beside ours, and the choices of models."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from services.core.studies.study import Measure
from services.reports.plots import ACCENT, INK, PALETTE, QUIET, WIDTH, finish, png, share_of
from services.reports.studies import Line, StudyFacts
from services.reports.study_choices import ChoiceLine

LONGEST_LABEL = 34


def side_by_side(facts: StudyFacts, lines: Sequence[Line]) -> bytes:
    """Bars of the paper and of ours with intervals, one row for each line that has either; scales are their own."""
    shown = [line for line in lines if line.ours is not None or line.paper_average is not None]
    shown.reverse()
    figure = Figure(figsize=(WIDTH + 1.5, 1.2 + 0.34 * len(shown)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, line in enumerate(shown):
        bar(left, place, line.paper_average, "#9ca3af", facts.study.measure)
        bar(right, place, None if line.ours is None else line.ours.estimate, ACCENT, facts.study.measure)
        if line.ours is not None:
            right.plot(
                [line.ours.low, line.ours.high], [place, place], color=INK, linewidth=1.2, marker="|", markersize=7
            )
    left.set_yticks(range(len(shown)), [short(line.label) for line in shown], fontsize=8)
    left.set_title("The paper: its models and benchmarks", loc="left", fontsize=10, color=INK)
    right.set_title(f"Ours: {facts.base}, 95 % intervals", loc="left", fontsize=10, color=INK)
    for axes in (left, right):
        axes.set_xlim(left=0, right=1.0 if facts.study.measure is Measure.REWARD else None)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlabel(facts.study.measure.value)
        finish(axes, grid="x")
    return png(figure)


def bar(axes: Axes, place: int, value: float | None, colour: str, measure: Measure) -> None:
    """Draw a bar with its figure inside the axis; what is not known is a dash."""
    if value is None:
        axes.text(0, place, " -", va="center", fontsize=8, color=QUIET)
        return
    axes.barh(place, value, color=colour, height=0.66)
    text = f"{value:.3f}" if measure is Measure.REWARD else f"{value:,.0f}"
    axes.text(0, place, f" {text}", va="center", fontsize=7.5, color="#ffffff" if value > 0 else INK)


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
