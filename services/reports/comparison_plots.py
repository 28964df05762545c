"""Plots of a comparison: rewards with intervals, reward against price with the front, who acted at which turn."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from services.reports.comparison import COORDINATOR, Comparison, Line
from services.reports.plots import ACCENT, GRID, HEIGHT, INK, PALETTE, SECOND, WIDTH, finish, literal, png
from services.reports.records import ChoiceFigure, PolicyKind

KIND_COLOURS = {
    PolicyKind.COORDINATOR: ACCENT,
    PolicyKind.PEER: "#56b4e9",
    PolicyKind.SINGLE: "#9ca3af",
    PolicyKind.RANDOM: "#d1d5db",
    PolicyKind.RIVAL: "#009e73",
    PolicyKind.FAMILY_BEST: "#fcd9a5",
    PolicyKind.ORACLE: SECOND,
}
WIDE_RANGE = 20.0  # above this ratio of the dearest to the cheapest, prices are drawn by their logarithm

Box = tuple[float, float, float, float]


def draw(comparison: Comparison, choices: Sequence[ChoiceFigure] = (), order: Sequence[str] = ()) -> dict[str, bytes]:
    """Return every plot that the comparison allows, file name -> PNG.

    Args:
        comparison: what is drawn.
        choices: who acted; those of the trained coordinator are drawn.
        order: of the models and roles in the legends.
    """
    plots: dict[str, bytes] = {}
    if comparison.lines:
        plots["comparison.png"] = bars(comparison)
    if len(priced(comparison)) > 1:
        plots["frontier.png"] = frontier(comparison)
    own = [choice for choice in choices if choice.policy == COORDINATOR]
    if own:
        plots["turns.png"] = by_turn(own, order)
    return plots


def bars(comparison: Comparison) -> bytes:
    """Mean reward of every policy with its 95 % interval, the coordinator on top."""
    lines = list(reversed(comparison.lines))
    figure = Figure(figsize=(WIDTH, 1.3 + 0.36 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for row, line in enumerate(lines):
        low, high = line.interval.low, line.interval.high
        axes.barh(row, line.interval.estimate, color=KIND_COLOURS[line.kind], height=0.68)
        axes.plot([low, high], [row, row], color=INK, linewidth=1.2, marker="|", markersize=7)
        axes.text(high + 0.012, row, f"{line.interval.estimate:.3f}", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(lines)), [f"{literal(line.policy)} (n={line.n})" for line in lines], fontsize=8)
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.set_xlabel("mean reward on held-out problems, 95 % interval")
    axes.set_title("Comparison", loc="left", fontsize=11, color=INK)
    finish(axes, grid="x")
    return png(figure)


def priced(comparison: Comparison) -> list[tuple[Line, float]]:
    """Return the lines with a price, each with its USD per 1,000 questions."""
    return [
        (line, 1000 * line.costs.usd.estimate)
        for line in comparison.lines
        if line.costs is not None and line.costs.usd is not None
    ]


def frontier(comparison: Comparison) -> bytes:
    """Mean reward against USD; the line joins what no other policy beats in both, bounds are hollow."""
    points = priced(comparison)
    figure = Figure(figsize=(WIDTH, HEIGHT + 1.6), layout="constrained")
    axes = figure.subplots()
    for line, usd in points:
        low, high = line.interval.low, line.interval.high
        axes.plot([usd, usd], [low, high], color=GRID, linewidth=1.4, zorder=1)
        colour = "none" if line.bound else KIND_COLOURS[line.kind]
        axes.plot(usd, line.interval.estimate, "o", color=colour, markeredgecolor=INK, markersize=6)
    front = [(usd, line.interval.estimate) for line in comparison.frontier for own, usd in points if own is line]
    axes.plot(
        *zip(*front, strict=True),
        color=INK,
        linewidth=1.0,
        linestyle="--",
        drawstyle="steps-post",
        zorder=1,
        label="not beaten in both",
    )
    cheapest = min(usd for _, usd in points)
    dearest = max(usd for _, usd in points)
    if cheapest > 0 and dearest > WIDE_RANGE * cheapest:
        axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.set_ylim(-0.02, 1.05)
    axes.set_xlabel("USD per 1,000 questions, kept replies at their list price")
    axes.set_ylabel("mean reward, 95 % interval")
    axes.set_title("Reward against price", loc="left", fontsize=11, color=INK)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    finish(axes)
    name_points(figure, axes, [(literal(line.policy), usd, line.interval.estimate) for line, usd in points])
    return png(figure)


def name_points(figure: Figure, axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Write each point's name beside it, where it covers neither another name nor a point."""
    figure.draw_without_rendering()
    places = [axes.transData.transform((x, y)) for _, x, y in points]
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    for (name, x, y), (left, below) in zip(points, places, strict=True):
        size = 8.6 * len(name), 16.0
        offsets = [
            (8, 4),
            (8, -20),
            (-8 - size[0], 4),
            *((10, step) for step in (8, -24, 24, -40, 40, -56, 56, -72, 72)),
        ]
        boxes = [(left + dx, below + dy, left + dx + size[0], below + dy + size[1]) for dx, dy in offsets]
        at = next((at for at, box in enumerate(boxes) if not any(overlap(box, other) for other in taken)), 0)
        taken.append(boxes[at])
        dx, dy = offsets[at]
        axes.annotate(name, (x, y), (dx, dy + 8), textcoords="offset pixels", va="center", fontsize=7.5, color=INK)


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def by_turn(choices: Sequence[ChoiceFigure], order: Sequence[str]) -> bytes:
    """Shares of models and of roles at each turn of one policy, with the number of episodes that had the turn."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    stacked(left, choices, "model", order, "Models by turn, held-out problems")
    stacked(right, choices, "role", order, "Roles by turn, held-out problems")
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    return png(figure)


def stacked(axes: Axes, choices: Sequence[ChoiceFigure], field: str, order: Sequence[str], title: str) -> None:
    """Draw the shares of what ``field`` names, one bar per turn."""
    totals = turn_counts(choices)
    below = [0.0] * len(totals)
    there = dict.fromkeys(getattr(choice, field) for choice in choices)
    names = [name for name in order if name in there] or list(there)
    for index, name in enumerate(names):
        parts = [share(choices, field, name, turn) / number for turn, number in totals.items()]
        colour, hatch = PALETTE[index % len(PALETTE)], None if index < len(PALETTE) else "//"
        axes.bar(list(totals), parts, 0.8, below, label=literal(name), color=colour, hatch=hatch)
        below = [low + part for low, part in zip(below, parts, strict=True)]
    axes.set_xticks(list(totals), [f"{turn}\nn={number}" for turn, number in totals.items()])
    axes.set_ylim(0, 1)
    axes.set_xlabel("turn")
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    finish(axes)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, fontsize=8, frameon=False)


def turn_counts(choices: Sequence[ChoiceFigure]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for choice in choices:
        counts[choice.turn] = counts.get(choice.turn, 0) + choice.turns
    return dict(sorted(counts.items()))


def share(choices: Sequence[ChoiceFigure], field: str, name: str, turn: int) -> int:
    return sum(choice.turns for choice in choices if choice.turn == turn and getattr(choice, field) == name)
