"""``campaign compare``: the policies of one campaign, or the coordinators of several on the problems they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.cli import candidates, comparing, heldout, render
from services.config import document
from services.reports.across import ALWAYS, Across, Entry, across
from services.reports.comparison_rows import csv_text
from services.storage import campaigns, evaluations
from services.storage.engine import Connection, Database

TOLD = ("preset", "encoder", "head", "protocol", "search")


def read(database: Database, names: Sequence[str]) -> Across:
    """Return the comparison of the campaigns, read at one moment.

    Raises:
        SpecError: unknown campaigns, or ones that cannot be compared.
    """
    with database.transaction() as conn:
        return across([entry(conn, name) for name in names])


def entry(conn: Connection, name: str) -> Entry:
    record = campaigns.by_name(conn, name)
    campaign = document.from_json(record.spec)
    found = evaluations.read(conn, record.id)
    told = dict(candidates.lines(campaign))
    return Entry(
        name=record.name,
        seed=record.seed,
        settings={"learner": campaign.search.algorithm.value, "seed": str(record.seed), "state": record.state.value}
        | {heading: told[heading] for heading in TOLD},
        usd=record.spend.usd_charged,
        scores=heldout.scores(found.episodes, campaign),
        contents={episode.problem_key: episode.content for episode in found.episodes},
        family_choice=heldout.family_choice(found.labels, campaign),
    )


def show(found: Across) -> None:
    """Print what the campaigns are, then the comparison."""
    render.show(f"{render.count(found.shared)} held-out problems, answered by all")
    rows = [
        (each.name, *(each.settings[name] for name in ALWAYS), len(each.answered), render.usd(each.usd))
        for each in found.entries
    ]
    render.show_table(("campaign", *ALWAYS, "held-out", "spent in all"), rows, indent=2)
    comparing.show(found.comparison)


def as_document(found: Across) -> dict[str, Any]:
    """Return the comparison for programs."""
    return {
        "shared_problems": found.shared,
        "campaigns": [
            {
                "name": each.name,
                "settings": render.plain(each.settings),
                "held_out_problems": len(each.answered),
                "usd_charged": render.plain(each.usd),
            }
            for each in found.entries
        ],
        "frontier": [line.policy for line in found.comparison.frontier],
        **render.plain(found.comparison),
    }


def write_csv(found: Across, path: Path) -> None:
    path.write_text(csv_text(found.comparison), encoding="utf-8")


def write(found: Across, folder: Path) -> Path:
    """Write the page with its plots and return it. Imports matplotlib."""
    from services.reports import across_page

    return across_page.write(found, folder)
