"""From events to steps: a campaign's unprocessed events are handled together, in the transaction of the step."""

from __future__ import annotations

from contextlib import suppress

from scheduler.fits import StillComputing
from scheduler.generation import advance
from scheduler.memory import Memory
from services.core.errors import IllegalTransition
from services.storage import campaign_states, events, leadership
from services.storage.engine import Database
from services.storage.events import Due

FAILURES_BEFORE_GIVING_UP = 5


def look(database: Database, epoch: int) -> list[Due]:
    """Return the campaigns with events; those of campaigns with unfinished episodes are done with by looking."""
    with database.transaction() as conn:
        leadership.require(conn, epoch)
        return events.due(conn)


def handle(database: Database, epoch: int, due: Due, memory: Memory) -> list[str]:
    """Advance one campaign and mark its events processed, in one transaction; return what was done.

    While the campaign's learner is being rebuilt or fitted nothing is done, and its events are due again.
    """
    with suppress(StillComputing), database.transaction() as conn:
        leadership.require(conn, epoch)
        done = advance(conn, epoch, due.campaign_id, memory)
        events.mark_processed(conn, due.ids)
        return done
    return []


def postpone(database: Database, epoch: int, due: Due, error: Exception) -> bool:
    """Leave the events unprocessed with a later next attempt; True when the campaign was given up with the reason.

    Other campaigns go on meanwhile.
    """
    reason = f"{type(error).__name__}: {error}"
    with database.transaction() as conn:
        leadership.require(conn, epoch)
        failures = max(events.mark_failed(conn, each, reason) for each in due.ids)
        if failures < FAILURES_BEFORE_GIVING_UP:
            return False
        with suppress(IllegalTransition):  # it ended meanwhile; then only the events are left to close
            campaign_states.fail(conn, due.campaign_id, reason)
        events.mark_processed(conn, due.ids)
    return True
