"""Leases: workers extend theirs, the leader's sweep takes back those that ran out. All by the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.events import EventType
from services.core.ids import CampaignId, EpisodeId
from services.storage import campaigns, events, leadership, ledger
from services.storage.nesting import atomic
from services.storage.records import ClaimedEpisode

# An ended attempt leaves its open calls to the thread that made them; after this long nobody will settle them.
ORPHAN_SECONDS = 3600.0

# In the order of their numbers, as the sweep takes them.
LOCK_MINE = text("""
select e.id from episode e
where e.id = any(cast(:ids as bigint[])) and e.state = 'running'
order by e.id for no key update
""")

HEARTBEAT = text("""
with mine as (
    select e.id, e.attempt, c.state = 'running' as go_on
    from episode e
    join unnest(cast(:ids as bigint[]), cast(:attempts as integer[]), cast(:owners as text[]))
        as m(id, attempt, owner) on e.id = m.id and e.attempt = m.attempt and e.lease_owner = m.owner
    join campaign c on c.id = e.campaign_id
    where e.state = 'running'
), extended as (
    update episode e set lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
    from mine where e.id = mine.id
    returning e.id
)
select id, attempt from mine where go_on
""")

AFFECTED = text("""
select campaign_id from episode where state = 'running' and lease_expires_at < now()
union
select l.campaign_id from llm_call l join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
where l.state = 'open' and a.outcome <> 'running' and l.opened_at < now() - make_interval(secs => :orphan)
""")

LOCK_OVERDUE = text("""
select id from episode
where campaign_id = any(cast(:ids as bigint[])) and state = 'running' and lease_expires_at < clock_timestamp()
order by id for no key update
""")

# A second loss in a row may be the doing of an episode that kills its worker, and with it whatever runs beside it. From
# then on they wait for different times, so that the others do not meet it again in every attempt.
EXPIRE = text("""
with overdue as (
    select e.id, e.attempt - e.attempt_floor < c.max_attempts as again,
        case when e.attempt - e.attempt_floor < 2 then 0
            else random() * least(60, power(2, e.attempt - e.attempt_floor)) end as seconds
    from episode e join campaign c on c.id = e.campaign_id
    where e.campaign_id = any(cast(:ids as bigint[])) and e.state = 'running'
        and e.id = any(cast(:overdue as bigint[]))
), expired as (
    update episode e set state = case when o.again then 'pending' else 'failed' end,
        failure_kind = case when not o.again then 'LeaseExpired' end,
        failure_detail = case when not o.again then 'its worker fell silent in every attempt' end,
        available_at = clock_timestamp() + make_interval(secs => o.seconds), published_at = null, lease_owner = null,
        lease_expires_at = null
    from overdue o where e.id = o.id
    returning e.id, e.attempt, e.campaign_id, e.generation_id, e.state
), lost as (
    update attempt a set outcome = 'lost', ended_at = clock_timestamp()
    from expired x where a.episode_id = x.id and a.number = x.attempt
)
select x.id, x.attempt, x.campaign_id, x.state, g.number
from expired x join generation g on g.id = x.generation_id
order by x.id
""")


def heartbeat(conn: Connection, claims: Sequence[ClaimedEpisode], lease_seconds: float) -> set[tuple[EpisodeId, int]]:
    """Extend the leases of claims that still hold and return (episode, attempt) of those whose work shall go on.

    Leases of a campaign that does not run are extended, so that a call under way can settle, but not returned: stop
    those and give them back. Whatever else is missing was lost or cancelled.

    Args:
        conn: a connection in autocommit, or a transaction.
        claims: everything the worker runs.
        lease_seconds: from now.
    """
    values = {
        "ids": [claim.episode_id for claim in claims],
        "attempts": [claim.attempt for claim in claims],
        "owners": [claim.owner for claim in claims],
        "lease": float(lease_seconds),
    }
    with atomic(conn):
        conn.execute(LOCK_MINE, values)
        rows = conn.execute(HEARTBEAT, values).all()
    return {(EpisodeId(row.id), row.attempt) for row in rows}


def expire(conn: Connection, *, epoch: int, orphan_seconds: float = ORPHAN_SECONDS) -> int:
    """Take back every lease that ran out and return how many there were.

    The attempt is lost, its open calls are booked at their reservations, the episode is pending again or, out of
    attempts, failed. Calls left open by attempts that ended otherwise are booked after ``orphan_seconds``.

    Raises:
        LeadershipLost: another scheduler took office.
    """
    leadership.require(conn, epoch)
    affected = sorted(conn.execute(AFFECTED, {"orphan": orphan_seconds}).scalars())
    if not affected:
        return 0
    campaigns.lock(conn, affected)
    overdue = list(conn.execute(LOCK_OVERDUE, {"ids": affected}).scalars())
    expired = conn.execute(EXPIRE, {"ids": affected, "overdue": overdue}).all()
    ledger.book_abandoned(conn, [CampaignId(campaign) for campaign in affected], orphan_seconds)
    for row in expired:
        _tell(conn, row)
    for campaign in sorted({row.campaign_id for row in expired}):
        events.notify(conn, CampaignId(campaign))
    return len(expired)


def _tell(conn: Connection, row: Row[Any]) -> None:
    payload = {"episode": row.id, "generation": row.number, "attempt": row.attempt}
    events.append(conn, row.campaign_id, EventType.EPISODE_LEASE_EXPIRED, payload)
    if row.state == "failed":
        events.append(conn, row.campaign_id, EventType.EPISODE_FAILED, {**payload, "kind": "LeaseExpired"})
