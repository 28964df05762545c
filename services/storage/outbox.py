"""Pending rows are the outbox: which episodes the broker should hear about, and that it did.

Publish after the transaction that read them, mark them afterwards. A crash in between publishes twice, and the claim
makes the second message harmless.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from services.core.ids import EpisodeId
from services.core.states import CandidateKind, Purpose
from services.storage.nesting import atomic
from services.storage.records import Publishable

PENDING = text("""
with load as materialized (
    select c.id, c.name, greatest(:window - (
        select count(*) from episode e where e.campaign_id = c.id and e.state in ('queued', 'running')), 0) as room
    from campaign c where c.state = 'running'
), ready as (
    select e.id, load.id as campaign_id, load.name, row_number() over (partition by load.id order by e.id) as place
    from load cross join lateral (
        select id from episode
        where campaign_id = load.id and state = 'pending' and available_at <= now()
        order by id limit load.room) e
    union all
    select e.id, load.id, load.name, 0
    from load cross join lateral (
        select id from episode
        where campaign_id = load.id and state = 'queued' and published_at < now() - make_interval(secs => :republish)
        order by id limit :window) e
)
select e.id, e.attempt, e.purpose, e.replicate, r.name, g.number, c.kind, c.index as place_in_kind
from ready r
join episode e on e.id = r.id
join generation g on g.id = e.generation_id
join candidate c on c.id = e.candidate_id
order by r.place, r.campaign_id, e.id
""")

LOCK_SENT = text("""
select id from episode where id = any(cast(:ids as bigint[])) and state in ('pending', 'queued')
order by id for no key update
""")

# The attempt number keeps a row out that was claimed and given back before its message was marked.
MARK = text("""
update episode e set state = 'queued', published_at = clock_timestamp()
from unnest(cast(:ids as bigint[]), cast(:attempts as integer[])) as sent(id, attempt)
where e.id = sent.id and e.attempt = sent.attempt and e.state in ('pending', 'queued')
""")


def pending(conn: Connection, *, window: int, republish_seconds: float) -> list[Publishable]:
    """Return the episodes to publish now, one of each running campaign in turn.

    A campaign has at most ``window`` episodes at the broker or running, so that pausing, cancelling and fairness act at
    once. Messages sent longer than ``republish_seconds`` ago and not yet claimed come first: they may be lost.
    """
    values = {"window": window, "republish": float(republish_seconds)}
    return [
        Publishable(
            EpisodeId(row.id),
            row.attempt,
            Purpose(row.purpose),
            label(row.name, row.number, CandidateKind(row.kind), row.place_in_kind, row.replicate),
        )
        for row in conn.execute(PENDING, values)
    ]


def mark_published(conn: Connection, rows: Sequence[Publishable]) -> int:
    """Note that these were sent and return for how many that still mattered; claimed ones are left alone."""
    columns = {"ids": [row.episode_id for row in rows], "attempts": [row.attempt for row in rows]}
    with atomic(conn):
        conn.execute(LOCK_SENT, columns)
        return conn.execute(MARK, columns).rowcount


def label(campaign: str, generation: int, kind: CandidateKind, index: int, replicate: int) -> str:
    """Return what people read in Flower and in logs, e.g. ``quickstart g3 c17 r5`` or ``quickstart g60 single2 r0``."""
    candidate = f"c{index}" if kind is CandidateKind.SAMPLE else f"{kind.value}{index}"
    return f"{campaign} g{generation} {candidate} r{replicate}"
