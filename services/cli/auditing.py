"""``db audit``: the invariants of the database, checked and shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from services.cli import render
from services.config.document import from_json
from services.config.settings import Settings
from services.storage.audit import Patience, Verdict, audit
from services.storage.engine import Database

SHOWN = 20
QUIET_SECONDS = 2.0


def run(database: Database, settings: Settings, name: str | None, *, as_json: bool) -> bool:
    """Check one campaign, or all, print what came out, and return whether everything holds."""
    verdicts = audit(database, from_json, name=name, patience=patience(settings), progress=Progress())
    if as_json:
        render.show_json(verdicts)
    else:
        show(verdicts)
    return not any(verdict.findings for verdict in verdicts)


def patience(settings: Settings) -> Patience:
    """Return how long may pass under these settings; a leader that takes office spares leases for two heartbeats."""
    usual = Patience()
    return replace(
        usual,
        lease=usual.lease + 2 * settings.heartbeat_seconds,
        republish=settings.republish_seconds,
        reach=max(usual.reach, 2 * settings.lease_seconds),
    )


class Progress:
    """Tells where a long audit is; a short one says nothing."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, line: str) -> None:
        seconds = time.monotonic() - self._started
        if seconds > QUIET_SECONDS:
            render.say(f"{render.duration(seconds)}: {line}")


def show(verdicts: Sequence[Verdict]) -> None:
    """Print the table of invariants and below it the first findings of each."""
    rows = [(verdict.id, verdict.statement, _outcome(len(verdict.findings))) for verdict in verdicts]
    render.show_table(("invariant", "statement", "outcome"), rows)
    for verdict in verdicts:
        if verdict.findings:
            render.show(f"\n{verdict.id}: {verdict.statement}")
            shown = [(each.campaign, each.where, each.wanted, each.found) for each in verdict.findings[:SHOWN]]
            render.show_table(("campaign", "where", "wanted", "found"), shown, indent=2)
            if more := len(verdict.findings) - len(shown):
                render.show(f"  and {more:,} more; --json lists all")


def _outcome(findings: int) -> str:
    return "ok" if findings == 0 else "1 finding" if findings == 1 else f"{findings:,} findings"
