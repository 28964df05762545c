"""Reading a campaign's journal back: every change of its state has its event, in an order that could have happened."""

from __future__ import annotations

from itertools import pairwise

from services.core.events import EventType
from services.core.states import CAMPAIGN_TRANSITIONS, CampaignState
from services.storage import campaigns, events
from services.storage.engine import Database

ENTERED = {
    EventType.CAMPAIGN_PAUSED: CampaignState.PAUSED,
    EventType.CAMPAIGN_RESUMED: CampaignState.RUNNING,
    EventType.CAMPAIGN_CANCELLED: CampaignState.CANCELLED,
    EventType.CAMPAIGN_COMPLETED: CampaignState.COMPLETED,
    EventType.CAMPAIGN_FAILED: CampaignState.FAILED,
    EventType.BUDGET_EXHAUSTED: CampaignState.BUDGET_EXHAUSTED,
}


def states_told(database: Database, name: str) -> list[CampaignState]:
    """Return the states that the journal tells of, oldest first; the first generation tells that it started."""
    with database.transaction() as conn:
        history = events.history(conn, campaigns.by_name(conn, name).id, 10_000)
    told = [CampaignState.SUBMITTED]
    for event in reversed(history):
        if event.type in ENTERED:
            told.append(ENTERED[event.type])
        elif event.type is EventType.GENERATION_OPENED and told == [CampaignState.SUBMITTED]:
            told.append(CampaignState.RUNNING)
    return told


def assert_journal_tells_the_state(database: Database, name: str) -> None:
    """Fail unless the told states follow each other legally and end where the campaign is."""
    told = states_told(database, name)
    for before, after in pairwise(told):
        assert after in CAMPAIGN_TRANSITIONS[before], told
    with database.transaction() as conn:
        assert campaigns.by_name(conn, name).state is told[-1], told
