"""A headroom analysis as a folder: one HTML page, its plots beside it, and the figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from services.core.statistics.headroom import Headroom, Way
from services.core.statistics.intervals import Interval
from services.reports.markup import PAGE, note, picture, section, table
from services.reports.plots import ACCENT, INK, SECOND, WIDTH, finish, png
from services.reports.style import STYLE

CAPTIONS = {
    "ways.png": "Mean reward of ways to choose a model for a question, with 95 % intervals over questions.",
    "disagreement.png": "Share of answers that are worth something else, for each two models.",
}
COLOURS = {Way.RANDOM: "#d1d5db", Way.SINGLE: "#9ca3af", Way.UNION: "#fcd9a5", Way.ANSWERS: SECOND}
WAY_COLUMNS = ("way to choose", "n", "in sample", "cross-fitted", "95 % interval", "over the best single model")
MODEL_COLUMNS = ("model", "mean reward", "95 % interval", "solves alone", "union without it", "best way without it")
NOTE = (
    "In sample: chosen and scored on the same questions, which flatters. Cross-fitted: chosen on one half of the "
    "questions and scored on the other, averaged over random halves; the routing oracle picks by all answers but one "
    "and is scored by that one. The union takes the best answer that any model gave, luck included: no choice of "
    "one answer to each question does better, and no router can be expected to come near."
)


def write(found: Headroom, source: str, remarks: Sequence[str], document: Any, folder: Path) -> Path:
    """Write ``index.html``, ``headroom.json`` and the plots into ``folder`` (made if absent); return the page.

    Args:
        found: the analysis.
        source: what it is about, in words.
        remarks: sentences below the first one.
        document: plain data of the analysis.
        folder: where to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plots = {"ways.png": ways(found), "disagreement.png": disagreement(found)}
    for name, content in plots.items():
        (folder / name).write_bytes(content)
    figures = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "headroom.json").write_text(figures + "\n", encoding="utf-8")
    page = folder / "index.html"
    page.write_text(html(found, source, remarks, plots), encoding="utf-8")
    return page


def html(found: Headroom, source: str, remarks: Sequence[str], plots: Mapping[str, bytes]) -> str:
    """Return the page; every text that comes from a campaign or a table is escaped."""
    title = escape(f"Headroom of {source}")
    counted = "families count alike" if found.by_family else "questions count alike"
    answers = "one answer" if found.repeats == 1 else f"{found.repeats} answers"
    sizes = f"{found.questions:,} questions, {answers} of each model to each; {counted}."
    parts = [
        f"<h1>{title}</h1>",
        f"<p class=lead>{escape(f'{found.verdict.finding}: {found.verdict.reason}.')}</p>",
        f"<p>{escape(' '.join([sizes, *(f'{each}.' for each in remarks)]))}</p>",
        section("Ways to choose", [picture(plots, "ways.png", CAPTIONS["ways.png"]), ways_table(found), note(NOTE)]),
        section("Models", [models_table(found), marginal_note(found)]),
        section("Disagreement", [picture(plots, "disagreement.png", CAPTIONS["disagreement.png"])]),
        section("Families", [table(("family", "questions"), [(k, f"{v:,}") for k, v in found.families.items()])]),
    ]
    return PAGE.format(title=title, style=STYLE, body="\n".join(parts))


def ways_table(found: Headroom) -> str:
    rows = [
        (
            line.way.value,
            f"{found.questions:,}",
            "-" if line.in_sample is None else f"{line.in_sample:.3f}",
            f"{line.value.estimate:.3f}",
            span(line.value),
            signed(line.gain),
        )
        for line in found.lines
    ]
    return table(WAY_COLUMNS, rows, [line.way is Way.SINGLE for line in found.lines])


def models_table(found: Headroom) -> str:
    rows = [
        (
            each.model,
            f"{each.mean.estimate:.3f}",
            span(each.mean),
            f"{each.alone:,}",
            f"{0.0 - each.union_loss:+.3f}",
            "-" if each.loss is None else signed(less(each.loss)),
        )
        for each in found.models
    ]
    return table(MODEL_COLUMNS, rows)


def marginal_note(found: Headroom) -> str:
    way = "no way was cross-fitted" if found.marginal is None else f"the best way is: {found.marginal.value}"
    text = f"n = {found.questions:,} questions; {way}. A model solves a question from a mean reward of one half on."
    return note(text)


def less(interval: Interval) -> Interval:
    """Return the interval of what is taken away; 0 stays without a sign."""
    return Interval(0.0 - interval.estimate, 0.0 - interval.high, 0.0 - interval.low)


def signed(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{interval.estimate:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"


def span(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def ways(found: Headroom) -> bytes:
    """Draw every way's mean reward with its interval."""
    lines = list(reversed(found.lines))
    figure = Figure(figsize=(WIDTH, 1.3 + 0.4 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for row, line in enumerate(lines):
        low, high = line.value.low, line.value.high
        axes.barh(row, line.value.estimate, color=COLOURS.get(line.way, ACCENT), height=0.66)
        axes.plot([low, high], [row, row], color=INK, linewidth=1.2, marker="|", markersize=7)
        axes.text(high + 0.012, row, f"{line.value.estimate:.3f}", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(lines)), [line.way.value for line in lines], fontsize=8)
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.set_xlabel(f"mean reward, 95 % interval, n = {found.questions:,} questions")
    axes.set_title("What choosing is worth", loc="left", fontsize=11, color=INK)
    finish(axes, grid="x")
    return png(figure)


def disagreement(found: Headroom) -> bytes:
    """Draw the share of differing answers of each two models as a matrix."""
    names = [each.model for each in found.models]
    size = 2.2 + 0.34 * len(names)
    figure = Figure(figsize=(min(2 * WIDTH, size + 2.2), min(2 * WIDTH, size)), layout="constrained")
    axes = figure.subplots()
    drawn = axes.imshow(found.disagreement, cmap="Blues", vmin=0)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8, rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    if len(names) <= 12:
        middle = max(max(row) for row in found.disagreement) / 2
        for at, row in enumerate(found.disagreement):
            for over, share in enumerate(row):
                colour = "white" if share > middle else INK
                axes.text(over, at, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(drawn, ax=axes, format=PercentFormatter(1.0, decimals=0), shrink=0.8)
    axes.set_title(f"Disagreement (n = {found.questions:,})", loc="left", fontsize=11, color=INK)
    return png(figure)
