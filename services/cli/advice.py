"""What to do about a campaign that does not run, in one sentence for each reason to stand still."""

from __future__ import annotations

import re

from services.core.states import CampaignState
from services.storage.records import CampaignRecord

# Scope of a used-up budget, as its error names it -> the option of `campaign budget` that raises it.
OPTIONS = {
    "episodes": "--add-episodes N",
    "calls": "--add-calls N",
    "tokens": "--add-tokens N",
    "USD": "--add-usd AMOUNT",
    "wall clock seconds": "--add-hours N",
}
ANY_OPTION = "--add-... N"
SCOPE = re.compile(r"budget of (.+?) exhausted")


def what_now(record: CampaignRecord) -> str | None:
    """Return what a person can do next; None for a campaign that runs or is complete."""
    name = record.name
    branch = f"`manage.py campaign fork {name} --name NEW` branches off from a closed generation"
    sentences = {
        CampaignState.SUBMITTED: "a running scheduler starts it; `manage.py up` starts one on this machine",
        CampaignState.PAUSED: f"cure the reason, then `manage.py campaign resume {name}`",
        CampaignState.BUDGET_EXHAUSTED: (
            f"`manage.py campaign budget {name} {option(record.stop_reason)} --resume` raises the limit and goes on"
        ),
        CampaignState.FAILED: f"it has ended; {branch}",
        CampaignState.CANCELLED: f"it has ended; {branch}",
    }
    return sentences.get(record.state)


def option(reason: str | None) -> str:
    """Return the option that raises the limit which a reason names."""
    found = SCOPE.match(reason or "")
    return OPTIONS.get(found[1], ANY_OPTION) if found else ANY_OPTION
