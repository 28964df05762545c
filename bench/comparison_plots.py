"""Two plots of a set: validation scores over the episodes that are booked, and every policy's held-out reward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from bench.comparison_statistics import Entry, Row

COLOURS = {"learner": "#1f6f8b", "rival": "#6b7280", "bound": "#c0392b"}


def curves(entries: Sequence[Entry], levels: dict[str, float], title: str, file: Path) -> None:
    """Draw every learner's mean validation score over booked episodes, of the first its range over seeds, too.

    Args:
        entries: those without a curve are left out.
        levels: constants to hold them against, by name.
        title: of the plot.
        file: where it goes.
    """
    figure = Figure(figsize=(8.5, 5), layout="constrained")
    axes = figure.subplots()
    for index, entry in enumerate(entry for entry in entries if entry.curves):
        colour = colormaps["tab20"](index)
        booked = np.array([[episodes for episodes, _ in curve] for curve in entry.curves])[0]
        scores = np.array([[score for _, score in curve] for curve in entry.curves])
        axes.plot(booked, scores.mean(axis=0), "-" if len(booked) > 1 else "o", color=colour, label=entry.name)
        if not index:
            axes.fill_between(booked, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    for (name, level), style in zip(levels.items(), ("--", ":"), strict=False):
        axes.axhline(level, color="black", linestyle=style, linewidth=1, label=name)
    axes.set(xlabel="training episodes booked, labels included", ylabel="mean reward, validation", title=title)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(file, dpi=110)


def intervals(rows: Sequence[Row], title: str, file: Path) -> None:
    """Draw every policy's held-out reward with its interval, the best on top."""
    figure = Figure(figsize=(8.5, 0.3 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    values = [row.reward for row in rows]
    errors = [[one.estimate - one.low for one in values], [one.high - one.estimate for one in values]]
    for kind, colour in COLOURS.items():
        chosen = [index for index, row in enumerate(rows) if row.kind == kind]
        axes.errorbar(
            [values[index].estimate for index in chosen],
            chosen,
            xerr=np.array(errors)[:, chosen],
            fmt="o",
            color=colour,
            capsize=2,
            label=kind,
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="mean reward of held-out questions, 95 % interval", title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=110)
