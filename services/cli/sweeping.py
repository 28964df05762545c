"""``campaign sweep``: one campaign for each value of a field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from services.cli import render, submission
from services.cli.submission import Prepared
from services.config.changes import Change, changes_of
from services.config.settings import Settings
from services.core.errors import SpecError
from services.core.ids import CampaignId

OTHER = re.compile(r"[^a-z0-9._]+")
COLUMNS = ("campaign", "value", "episodes", "expected calls", "expected USD", "largest USD")


@dataclass(frozen=True)
class Swept:
    """A campaign and the change that makes it."""

    change: Change
    prepared: Prepared


def prepare(path: Path, setting: str, settings: Settings, name: str | None = None) -> list[Swept]:
    """Read and check the file once for each value.

    Args:
        path: the campaign file.
        setting: ``FIELD=VALUE,VALUE,...``.
        settings: where data and local pools lie.
        name: replaces the file's own name, from which the names are made.

    Raises:
        SpecError: a value is wrong, or two of them make the same name.
    """
    changes = changes_of(setting)
    base = submission.prepare(path, settings, name).campaign.name
    found: dict[str, Swept] = {}
    for change in changes:
        own = name_of(base, change)
        if own in found:
            raise SpecError("--set", setting, f"values that make different names; two make {own}")
        found[own] = Swept(change, submission.prepare(path, settings, own, [change]))
    return list(found.values())


def name_of(base: str, change: Change) -> str:
    """Return the campaign's name: that of the file, of the field, and the value."""
    value = "none" if change.value is None else str(change.value)
    return submission.campaign_name(f"{base}-{change.field}-{OTHER.sub('-', value.lower()).strip('-')}")


def submit(swept: Sequence[Swept], settings: Settings) -> list[CampaignId]:
    """Insert all campaigns, or none."""
    return submission.submit_all([each.prepared for each in swept], settings)


def show_plan(swept: Sequence[Swept]) -> None:
    """Print what every campaign will take, and all together."""
    rows = [
        (each.prepared.campaign.name, render.printable(each.change.value), *amounts(plan))
        for each in swept
        for plan in [totals([each])]
    ]
    render.show_table(COLUMNS, [*rows, ("all", "", *amounts(totals(swept)))])


def totals(swept: Sequence[Swept]) -> dict[str, Any]:
    """Return the sums of the plans."""
    plans = [each.prepared.plan for each in swept]
    return {
        "episodes": sum(plan.episodes for plan in plans),
        "expected_calls": sum(plan.expected_calls for plan in plans),
        "expected_usd": sum((plan.expected_usd for plan in plans), Decimal(0)),
        "largest_usd": sum((plan.largest_usd for plan in plans), Decimal(0)),
    }


def amounts(total: dict[str, Any]) -> tuple[str, ...]:
    counts = (render.count(total["episodes"]), render.count(total["expected_calls"]))
    return (*counts, render.usd(total["expected_usd"]), render.usd(total["largest_usd"]))


def document(swept: Sequence[Swept], ids: Sequence[CampaignId]) -> Any:
    """Return the sweep as plain data; without ids nothing was submitted."""
    known: Sequence[CampaignId | None] = ids or [None] * len(swept)
    campaigns = [
        {"name": each.prepared.campaign.name, "value": each.change.value, "id": own, **totals([each])}
        for each, own in zip(swept, known, strict=True)
    ]
    return render.plain({"field": swept[0].change.path, "campaigns": campaigns, "all": totals(swept)})
