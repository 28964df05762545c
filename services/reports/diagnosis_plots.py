"""The plots of a diagnosis as PNG bytes: states in a plane, choices by family, the objective over generations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from services.reports.plots import ACCENT, HEIGHT, INK, PALETTE, WIDTH, finish, png

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def plane(points: NDArray[np.float64], families: Sequence[str], shares: tuple[float, float]) -> bytes:
    """Draw states on their first two principal axes, one colour a family.

    Args:
        points: shape (states, 2).
        families: of each state.
        shares: of the variance that the two axes hold.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT + 1.2), layout="constrained")
    axes = figure.subplots()
    for index, family in enumerate(sorted(set(families))):
        own = np.array([each == family for each in families])
        marker = MARKERS[(index // len(PALETTE)) % len(MARKERS)]
        axes.scatter(
            points[own, 0], points[own, 1], s=14, alpha=0.7, linewidth=0, marker=marker,
            color=PALETTE[index % len(PALETTE)], label=f"{family} (n={int(own.sum())})",
        )  # fmt: skip
    axes.set_xlabel(f"first principal axis, {100 * shares[0]:.0f} % of the variance")
    axes.set_ylabel(f"second, {100 * shares[1]:.0f} %")
    axes.set_title(f"States of {len(points)} questions, principal components", loc="left", fontsize=11, color=INK)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    finish(axes, grid="both")
    return png(figure)


def choices(shares: Mapping[str, tuple[int, Sequence[float]]], agents: Sequence[str], what: str) -> bytes:
    """Draw every agent's share of the turns of each family, stacked; ``shares`` also has the number of turns."""
    figure = Figure(figsize=(WIDTH, 1.4 + 0.36 * len(shares)), layout="constrained")
    axes = figure.subplots()
    names = list(shares)[::-1]
    left = np.zeros(len(names))
    for index, agent in enumerate(agents):
        parts = np.array([shares[name][1][index] for name in names])
        hatch = None if index < len(PALETTE) else "//"
        axes.barh(
            range(len(names)), parts, 0.7, left=left, label=agent, color=PALETTE[index % len(PALETTE)], hatch=hatch,
            linewidth=0,
        )  # fmt: skip
        left += parts
    axes.set_yticks(range(len(names)), [f"{name} (n={shares[name][0]:,})" for name in names], fontsize=8)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("share of turns")
    axes.set_title(f"Agents chosen by family, {what}", loc="left", fontsize=11, color=INK)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    finish(axes, grid="x")
    return png(figure)


def objective(rows: Sequence[Sequence[Any]]) -> bytes:
    """Draw J of every mean on the same questions; rows are (generations told, n, J, low, high)."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    told, sizes, values, low, high = (list(column) for column in zip(*rows, strict=True))
    axes.fill_between(told, low, high, color=ACCENT, alpha=0.15, linewidth=0, label="95 % over questions")
    axes.plot(told, values, color=ACCENT, marker="o", markersize=3, linewidth=1.6, label="mean of the search")
    axes.set_xlabel("generations told")
    axes.set_ylabel("expected reward")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"Exact J on {sizes[0]:,} held-out questions", loc="left", fontsize=11, color=INK)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    finish(axes)
    return png(figure)
