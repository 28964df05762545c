"""The comparison of several campaigns as a folder: page, plots, CSV."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from services.reports import comparison_page, comparison_plots
from services.reports.across import ALWAYS, Across
from services.reports.comparison_page import sentence
from services.reports.comparison_rows import csv_text
from services.reports.markup import PAGE, section, table
from services.reports.style import STYLE


def write(found: Across, folder: Path) -> Path:
    """Write ``index.html``, the plots and ``comparison.csv`` into ``folder`` (made if absent); return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = comparison_plots.draw(found.comparison)
    for name, content in plots.items():
        (folder / name).write_bytes(content)
    (folder / "comparison.csv").write_text(csv_text(found.comparison), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(document(found, plots), encoding="utf-8")
    return page


def document(found: Across, plots: Mapping[str, bytes]) -> str:
    """Return the page; every text that comes from a campaign is escaped."""
    names = [entry.name for entry in found.entries]
    title = escape(f"Comparison of {', '.join(names)}" if len(names) > 1 else f"Policies of campaign {names[0]}")
    command = f"manage.py campaign compare {' '.join(names)} --out FOLDER   # this page"
    body = [
        f"<h1>{title}</h1>",
        f"<p class=lead>{escape(lead(found))}</p>",
        section("Campaigns", [campaigns_table(found)]),
        *comparison_page.sections(found.comparison, plots),
        section("Reproduce", [f"<pre>{escape(command)}</pre>"]),
    ]
    return PAGE.format(title=title, style=STYLE, body="\n".join(body))


def lead(found: Across) -> str:
    """Return the sentences that a hurried reader takes away: the first campaign against the others, or against one."""
    comparison, names = found.comparison, {entry.name for entry in found.entries}
    peers = [each for each in comparison.differences if each.against in names]
    told = peers or comparison.headline
    reference = found.entries[0].name
    sentences = [sentence(each, f"the coordinator of {reference}") for each in told]
    shared = f"{found.shared} held-out problems were answered by all of them."
    return " ".join([shared, *sentences] if peers else sentences)


def campaigns_table(found: Across) -> str:
    """Return one row per campaign with the settings in which they differ."""
    headings = [*ALWAYS, *(heading for heading in found.entries[0].settings if differs(found, heading))]
    rows = [
        (each.name, f"{len(each.answered):,}", f"{each.usd:.6f}", *(each.settings[heading] for heading in headings))
        for each in found.entries
    ]
    return table(("campaign", "held-out problems", "USD spent in all", *headings), rows)


def differs(found: Across, heading: str) -> bool:
    return heading not in ALWAYS and len({each.settings[heading] for each in found.entries}) > 1
