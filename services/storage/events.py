"""The journal: facts that committed together with what they tell, and who still has to act on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.events import RECORDS, EventType
from services.core.ids import CampaignId, EventId
from services.storage.binary import pack_json, unpack_json
from services.storage.listening import CHANNEL
from services.storage.records import EventRecord, Json
from services.storage.text_codec import escape

APPEND = text("""
insert into event (campaign_id, type, payload, processed_at)
values (:campaign, :type, cast(:payload as jsonb), case when :record then now() end)
returning id
""")

NOTIFY = text("select pg_notify(:channel, :payload)")

UNPROCESSED = text("""
select id, campaign_id, type, payload, created_at, processed_at, failures from event
where processed_at is null and next_attempt_at <= now()
order by id limit :limit
""")

# An unfinished episode in the statement's snapshot ends later, and with an event that comes later: the events of its
# campaign so far ask for nothing.
DUE = text("""
with due as materialized (
    select id, campaign_id, type from event
    where processed_at is null and next_attempt_at <= now() order by id limit :limit
), busy as materialized (
    select found.campaign_id from (select distinct campaign_id from due) found
    where exists (
        select from episode e where e.campaign_id = found.campaign_id and e.state in ('pending', 'queued', 'running'))
), marked as (
    update event set processed_at = now(), error = null
    from due where event.id = due.id and due.campaign_id in (select campaign_id from busy)
        and event.processed_at is null
)
select due.campaign_id, busy.campaign_id is not null as busy, array_agg(due.id order by due.id) as ids,
    bool_or(due.type = 'campaign.resumed') as resumed
from due left join busy on busy.campaign_id = due.campaign_id
group by due.campaign_id, busy.campaign_id
order by min(due.id)
""")

MARK_PROCESSED = text("""
update event set processed_at = now(), error = null
where id = any(cast(:ids as bigint[])) and processed_at is null
""")

MARK_FAILED = text("""
update event set failures = failures + 1, error = :error,
    next_attempt_at = clock_timestamp() + make_interval(secs => least(60, power(2, least(failures + 1, 10))))
where id = :id and processed_at is null
returning failures
""")

HISTORY = text("""
select id, campaign_id, type, payload, created_at, processed_at, failures from event
where campaign_id = :campaign order by id desc limit :limit
""")


@dataclass(frozen=True)
class Due:
    """A campaign's unprocessed events.

    Attributes:
        busy: the campaign has unfinished episodes; the events are processed.
        ids: the events.
        resumed: somebody resumed the campaign.
    """

    campaign_id: CampaignId
    busy: bool
    ids: Sequence[EventId]
    resumed: bool


def append(conn: Connection, campaign_id: CampaignId, type_: EventType, payload: Json) -> EventId:
    """Add an event to the caller's transaction. Types that nobody acts on are written as processed."""
    values = {"campaign": campaign_id, "type": type_.value, "payload": pack_json(payload), "record": type_ in RECORDS}
    return EventId(conn.execute(APPEND, values).scalar_one())


def notify(conn: Connection, campaign_id: CampaignId) -> None:
    """Wake the scheduler when this transaction commits. Seldom on purpose: notifying commits queue behind one lock."""
    conn.execute(NOTIFY, {"channel": CHANNEL, "payload": str(campaign_id)})


def unprocessed(conn: Connection, limit: int = 500) -> list[EventRecord]:
    """Return the events to act on now, oldest first; one that failed is left out until its next attempt is due."""
    return [_record(row) for row in conn.execute(UNPROCESSED, {"limit": limit})]


def due(conn: Connection, limit: int = 2000) -> list[Due]:
    """Return the campaigns with events to act on now, the one with the oldest event first.

    Events of campaigns that have unfinished episodes are marked as processed on the way: nothing follows from them.
    """
    rows = conn.execute(DUE, {"limit": limit})
    return [
        Due(CampaignId(row.campaign_id), row.busy, [EventId(each) for each in row.ids], row.resumed) for row in rows
    ]


def mark_processed(conn: Connection, ids: Sequence[EventId]) -> None:
    """Mark events as acted on, in the transaction of the action. Marking one twice changes nothing."""
    conn.execute(MARK_PROCESSED, {"ids": list(ids)})


def mark_failed(conn: Connection, event_id: EventId, error: str) -> int:
    """Put an event off by 2, 4, 8, ... at most 60 seconds; return how often it failed so far, 0 if it is processed."""
    failures = conn.execute(MARK_FAILED, {"id": event_id, "error": escape(error)[:4000]}).scalar_one_or_none()
    return int(failures or 0)


def history(conn: Connection, campaign_id: CampaignId, limit: int = 50) -> list[EventRecord]:
    """Return a campaign's newest events, newest first."""
    return [_record(row) for row in conn.execute(HISTORY, {"campaign": campaign_id, "limit": limit})]


def _record(row: Row[Any]) -> EventRecord:
    return EventRecord(
        EventId(row.id),
        CampaignId(row.campaign_id),
        EventType(row.type),
        unpack_json(row.payload),
        row.created_at,
        row.processed_at,
        row.failures,
    )
