"""From events to steps: a campaign's unprocessed events are handled together, in the transaction of the step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

from scheduler.generation import advance
from scheduler.searches import Searches
from services.core.errors import IllegalTransition
from services.core.ids import CampaignId
from services.storage import campaign_states, events, leadership
from services.storage.engine import Database
from services.storage.records import EventRecord

FAILURES_BEFORE_GIVING_UP = 5


def by_campaign(unprocessed: Sequence[EventRecord]) -> list[tuple[CampaignId, list[EventRecord]]]:
    """Group events by campaign; campaigns in the order of their oldest event."""
    ordered = sorted(unprocessed, key=lambda event: (event.campaign_id, event.id))
    groups = [(campaign, list(group)) for campaign, group in groupby(ordered, key=lambda event: event.campaign_id)]
    return sorted(groups, key=lambda group: group[1][0].id)


def handle(
    database: Database, epoch: int, campaign_id: CampaignId, group: Sequence[EventRecord], searches: Searches
) -> list[str]:
    """Advance one campaign and mark its events processed, in one transaction; return what was done."""
    with database.transaction() as conn:
        leadership.require(conn, epoch)
        done = advance(conn, epoch, campaign_id, searches)
        events.mark_processed(conn, [event.id for event in group])
    return done


def postpone(
    database: Database, epoch: int, campaign_id: CampaignId, group: Sequence[EventRecord], error: Exception
) -> bool:
    """Leave the events unprocessed with a later next attempt; True when the campaign was given up with the reason.

    Other campaigns go on meanwhile.
    """
    reason = f"{type(error).__name__}: {error}"
    with database.transaction() as conn:
        leadership.require(conn, epoch)
        failures = max(events.mark_failed(conn, event.id, reason) for event in group)
        if failures < FAILURES_BEFORE_GIVING_UP:
            return False
        with suppress(IllegalTransition):  # it ended meanwhile; then only the events are left to close
            campaign_states.fail(conn, campaign_id, reason)
        events.mark_processed(conn, [event.id for event in group])
    return True
