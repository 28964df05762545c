"""Everything the database tells about one campaign, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from services.config import document
from services.core.campaign import Campaign
from services.core.events import EventType
from services.core.limits.meter import meter_of
from services.core.states import GenerationKind
from services.storage import campaigns, coordinators, evaluations, events, generations, ledger, limits, overview
from services.storage.engine import Connection, Database
from services.storage.evaluations import HeldOut
from services.storage.limits import Health
from services.storage.records import (
    CallTotals,
    CampaignRecord,
    CoordinatorRecord,
    CurvePoint,
    EventRecord,
    OutcomeCount,
    Progress,
    VerdictCount,
)

LOOK_BACK_EVENTS = 5000


@dataclass(frozen=True)
class Overview:
    """A campaign with its specification read back; ``last_validation`` is the score of the search's last mean.

    ``health`` is that of its models, in the newest calls of all campaigns that share them.
    """

    record: CampaignRecord
    campaign: Campaign
    progress: Progress
    curve: list[CurvePoint]
    last_validation: float | None
    totals: list[CallTotals]
    outcomes: list[OutcomeCount]
    verdicts: list[VerdictCount]
    held_out: HeldOut
    coordinator: CoordinatorRecord | None
    events: list[EventRecord]
    health: list[Health]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.campaign.pool)


def read(database: Database, name: str, events_limit: int = 0) -> Overview:
    """Return the overview; SpecError for an unknown campaign."""
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        campaign = document.from_json(record.spec)
        return Overview(
            record=record,
            campaign=campaign,
            progress=overview.progress(conn, record.id),
            curve=overview.learning_curve(conn, record.id),
            last_validation=last_validation(conn, record),
            totals=ledger.totals(conn, record.id),
            outcomes=overview.outcomes(conn, record.id),
            verdicts=overview.verdicts(conn, record.id),
            held_out=evaluations.read(conn, record.id),
            coordinator=coordinators.of_campaign(conn, record.id),
            events=telling_events(conn, record, events_limit) if events_limit else [],
            health=limits.health(conn, [meter_of(model).key for model in campaign.pool]),
        )


def telling_events(conn: Connection, record: CampaignRecord, limit: int) -> list[EventRecord]:
    """Return the newest events without those of single scores, which would push out all others."""
    found = events.history(conn, record.id, LOOK_BACK_EVENTS)
    return [event for event in found if event.type is not EventType.EPISODE_SCORED][:limit]


def last_validation(conn: Connection, record: CampaignRecord) -> float | None:
    found = generations.history(conn, record.id, GenerationKind.VALIDATION)
    score = (found[-1].summary or {}).get("mean_score") if found else None
    return None if score is None else float(score)
