"""The report's plots as PNG bytes, drawn on figures of their own: matplotlib's global state is never touched."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from services.reports.records import CampaignFacts, CurveFigure

WIDTH, HEIGHT, DPI = 8.0, 3.6, 144
INK, QUIET, GRID = "#1f2430", "#6b7280", "#e5e7eb"
ACCENT, SECOND = "#2563eb", "#d97706"
# Okabe and Ito's palette, told apart by colour-blind readers; longer pools repeat it with hatching.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")


def draw_all(facts: CampaignFacts) -> dict[str, bytes]:
    """Return every plot of the search that the facts allow, file name -> PNG."""
    plots: dict[str, bytes] = {}
    if facts.curve:
        plots["learning_curve.png"] = learning_curve(facts)
        plots["models.png"] = shares(facts.curve, "model_share", facts.models, "Models chosen in training episodes")
        if len(facts.roles) > 1:
            plots["roles.png"] = shares(facts.curve, "role_share", facts.roles, "Roles chosen in training episodes")
        if any(point.usd for point in facts.curve):
            plots["spend.png"] = spend(facts.curve)
    return plots


def learning_curve(facts: CampaignFacts) -> bytes:
    """Mean fitness of the candidates with the step size below; validation points carry their sample size."""
    figure = Figure(figsize=(WIDTH, HEIGHT + 1.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    at = [point.generation for point in facts.curve]
    shaping = ", with bonuses and costs" if facts.shaped else ""
    size = f"{facts.population} candidates x {facts.replicates} episodes{shaping}"
    best = [point.best_fitness for point in facts.curve]
    mean = [point.mean_fitness for point in facts.curve]
    upper.plot(at, best, color=QUIET, linewidth=0.8, alpha=0.7, label="best candidate")
    upper.plot(at, mean, color=ACCENT, linewidth=1.6, marker="o", markersize=2.5, label=f"mean of {size}")
    tested = [(point.generation, point.validation) for point in facts.curve if point.validation is not None]
    if facts.last_validation is not None:
        tested.append((at[-1] + 1, facts.last_validation))
    if tested:
        label = f"mean vector on {facts.validation_problems} validation problems"
        upper.plot(*zip(*tested, strict=True), color=SECOND, linestyle="--", marker="D", markersize=4, label=label)
    upper.set_ylabel("reward")
    upper.set_ylim(min(0.0, *mean, *best) - 0.02, max(1.0, *mean, *best) + 0.02)
    upper.legend(loc="lower right", fontsize=8, frameon=False)
    upper.set_title(f"Learning curve (seed {facts.seed})", loc="left", fontsize=11, color=INK)
    lower.plot(at, [point.sigma for point in facts.curve], color=INK, linewidth=1.2)
    lower.set_ylabel("sigma")
    lower.set_xlabel("generation")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(upper)
    finish(lower)
    return png(figure)


def shares(curve: Sequence[CurveFigure], field: str, names: Sequence[str], title: str) -> bytes:
    """Stacked shares over generations, one step per generation."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    at = [point.generation for point in curve]
    below = [0.0] * len(curve)
    for index, name in enumerate(names):
        parts: list[float] = [share_of(getattr(point, field), name) for point in curve]
        colour, hatch = PALETTE[index % len(PALETTE)], None if index < len(PALETTE) else "//"
        axes.bar(at, parts, 1.0, bottom=below, label=literal(name), color=colour, hatch=hatch, linewidth=0)
        below = [low + part for low, part in zip(below, parts, strict=True)]
    axes.set_xlim(at[0] - 0.5, at[-1] + 0.5)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("generation")
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False, reverse=True)
    finish(axes)
    return png(figure)


def literal(name: str) -> str:
    """Return a name as matplotlib draws it letter by letter: between dollar signs it would read a formula."""
    return name.replace("$", r"\$")


def share_of(shares_by_name: Mapping[str, float], name: str) -> float:
    return shares_by_name.get(name, 0.0)


def spend(curve: Sequence[CurveFigure]) -> bytes:
    """USD charged up to the end of each generation."""
    figure = Figure(figsize=(WIDTH, HEIGHT - 1), layout="constrained")
    axes = figure.subplots()
    total, totals = 0.0, []
    for point in curve:
        total += float(point.usd)
        totals.append(total)
    axes.fill_between([point.generation for point in curve], totals, color=ACCENT, alpha=0.18)
    axes.plot([point.generation for point in curve], totals, color=ACCENT, linewidth=1.6)
    axes.set_ylabel("USD, cumulative")
    axes.set_xlabel("generation")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("Spend of the training generations", loc="left", fontsize=11, color=INK)
    finish(axes)
    return png(figure)


def finish(axes: Axes, grid: str = "y") -> None:
    """Quiet frame, a grid behind the data."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GRID)
    options: Any = {"axis": grid, "color": GRID, "linewidth": 0.8}
    axes.grid(**options)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=INK, fontsize=9)
    axes.tick_params(colors=QUIET, labelcolor=INK, labelsize=8)


def png(figure: Figure) -> bytes:
    canvas = FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    canvas.print_figure(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
