"""What can happen. An event row commits with the fact it tells; a handler marks it processed in its own commit."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    CAMPAIGN_SUBMITTED = "campaign.submitted"
    CAMPAIGN_PAUSED = "campaign.paused"
    CAMPAIGN_RESUMED = "campaign.resumed"
    CAMPAIGN_CANCELLED = "campaign.cancelled"
    CAMPAIGN_COMPLETED = "campaign.completed"
    CAMPAIGN_FAILED = "campaign.failed"
    GENERATION_OPENED = "generation.opened"
    GENERATION_CLOSED = "generation.closed"
    EPISODE_SCORED = "episode.scored"
    EPISODE_FAILED = "episode.failed"
    EPISODE_LEASE_EXPIRED = "episode.lease_expired"
    BUDGET_EXHAUSTED = "budget.exhausted"
    COORDINATOR_RELEASED = "coordinator.released"


# Facts that nobody acts on: they are written as processed, for people and programs that read the history.
RECORDS = frozenset(
    {
        EventType.GENERATION_OPENED,
        EventType.GENERATION_CLOSED,
        EventType.CAMPAIGN_COMPLETED,
        EventType.CAMPAIGN_FAILED,
        EventType.CAMPAIGN_PAUSED,
        EventType.CAMPAIGN_CANCELLED,
        EventType.EPISODE_LEASE_EXPIRED,
        EventType.BUDGET_EXHAUSTED,
        EventType.COORDINATOR_RELEASED,
    }
)
