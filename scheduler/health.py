"""When too many attempts go wrong: the rule that pauses a campaign instead of letting it spend on."""

from __future__ import annotations

from services.storage.failures import Ended

NEWEST = 50
AT_LEAST = 20


def trouble(ended: Ended, max_failure_share: float) -> str | None:
    """Return why the campaign should pause; None while at most the allowed share of the newest attempts went wrong."""
    failed = sum(ended.failed.values())
    if ended.attempts < AT_LEAST or failed <= max_failure_share * ended.attempts:
        return None
    kinds = ", ".join(f"{kind} {count}" for kind, count in ended.failed.items())
    return (
        f"{failed} of the newest {ended.attempts} attempts failed ({kinds}); nothing was counted; "
        "see `manage.py campaign show`"
    )
