"""The HTML report: one page without scripts or outside resources, plots inside it and as files beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from html import escape
from pathlib import Path

from services.reports import comparison_page, comparison_plots
from services.reports.comparison import Comparison, compare
from services.reports.comparison_page import sentence
from services.reports.comparison_rows import csv_text
from services.reports.markup import PAGE, picture, section, table
from services.reports.plots import draw_all
from services.reports.records import CallFigure, CampaignFacts, OutcomeFigure
from services.reports.style import STYLE

CAPTIONS = {
    "learning_curve.png": "Reward of the candidates by generation, and the step size of the search.",
    "models.png": "Which pool models the candidates' heads chose, as shares of all turns of a generation.",
    "roles.png": "Which roles acted, as shares of all turns of a generation.",
    "spend.png": "What the training generations have cost so far, charged and settled.",
}


def write(facts: CampaignFacts, folder: Path) -> Path:
    """Write ``index.html``, the plots and ``comparison.csv`` into ``folder`` (made if absent); return the page's path.

    Before anything was compared there is no ``comparison.csv``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    comparison = compare(facts.scores, facts.seed, facts.family_choice)
    plots = draw_all(facts) | comparison_plots.draw(comparison, facts.choices, (*facts.models, *facts.roles))
    for name, content in plots.items():
        (folder / name).write_bytes(content)
    if comparison.lines:
        (folder / "comparison.csv").write_text(csv_text(comparison), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(document(facts, comparison, plots), encoding="utf-8")
    return page


def document(facts: CampaignFacts, comparison: Comparison, plots: dict[str, bytes]) -> str:
    """Return the page; every text that comes from a campaign is escaped."""
    title = escape(f"Campaign {facts.name}")
    body = "\n".join(
        [
            f"<h1>{title}</h1>",
            f"<p class=lead>{escape(lead(facts, comparison))}</p>",
            *comparison_page.sections(comparison, plots, facts.left_out),
            section("Learning", [figure(plots, "learning_curve.png")]),
            section("What the coordinator chooses", [figure(plots, "models.png"), figure(plots, "roles.png")]),
            section("Outcomes", [outcomes_table(facts.outcomes)]),
            section("Calls and spend", [figure(plots, "spend.png"), calls_table(facts.calls)]),
            section("Reproduce", [reproduce(facts)]),
        ]
    )
    return PAGE.format(title=title, style=STYLE, body=body)


def lead(facts: CampaignFacts, comparison: Comparison) -> str:
    """Return the sentence that a hurried reader takes away."""
    state = f"The campaign is {facts.state}" + (f" ({facts.reason})" if facts.reason else "")
    trained = f" after {len(facts.curve)} training generations" if facts.curve else ""
    return " ".join([f"{state}{trained}.", *(sentence(difference) for difference in comparison.headline)])


def figure(plots: dict[str, bytes], name: str) -> str:
    return picture(plots, name, CAPTIONS[name])


def outcomes_table(outcomes: Sequence[OutcomeFigure]) -> str:
    """Return why episodes were worth what they were, or nothing before the first."""
    if not outcomes:
        return ""
    rows = [
        (each.purpose, each.outcome, "" if each.rewarded else "no reward", f"{each.episodes:,}") for each in outcomes
    ]
    return table(("episodes of", "outcome", "", "episodes"), rows)


def calls_table(calls: Sequence[CallFigure]) -> str:
    if not calls:
        return ""
    rows = [
        (
            call.model,
            call.role,
            "counted" if call.counted else "repeated or lost",
            f"{call.calls:,}",
            f"{call.errors:,}",
            f"{call.tokens:,}",
            f"{call.usd:.6f}",
        )
        for call in calls
    ]
    usd = sum((call.usd for call in calls), Decimal(0))
    sums = [f"{sum(getattr(call, name) for call in calls):,}" for name in ("calls", "errors", "tokens")]
    rows.append(("all", "", "", sums[0], sums[1], sums[2], f"{usd:.6f}"))
    bold = [False] * len(calls) + [True]
    return table(("model", "role", "attempts", "calls", "errors", "tokens", "USD"), rows, bold)


def reproduce(facts: CampaignFacts) -> str:
    settings = [(heading, text) for heading, text in facts.settings.items()]
    commands = "\n".join(facts.commands)
    specification = json.dumps(facts.specification, indent=2, ensure_ascii=False)
    return (
        f"{table(('what', 'value'), settings)}<pre>{escape(commands)}</pre>"
        f"<details><summary>Resolved specification</summary><pre>{escape(specification)}</pre></details>"
    )
