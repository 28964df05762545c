"""Pending rows are the outbox: which episodes the broker should hear about, and that it did.

Rows are marked before their messages are sent, so that nothing is handed out twice by two rounds in a row. A message
that is lost after that, with the broker or with the scheduler that was to send it, is sent again: by the next leader,
or after a while. Second messages are harmless, the claim takes an episode once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from services.core.fairness import interleaved
from services.core.ids import CampaignId, EpisodeId
from services.core.states import CandidateKind, Purpose
from services.storage.nesting import atomic
from services.storage.records import Publishable

# How much is ready is counted up to one more than the window only: more can not be sent at once.
WAITING = text("""
select c.id, c.weight, f.queued, f.running, f.overdue, r.ready
from campaign c
cross join lateral (
    select count(*) filter (where state = 'queued') as queued, count(*) filter (where state = 'running') as running,
        coalesce(bool_or(state = 'queued' and published_at < now() - make_interval(secs => :republish)), false)
            as overdue
    from episode where campaign_id = c.id and state in ('queued', 'running')) f
cross join lateral (
    select count(*) as ready from (
        select from episode where campaign_id = c.id and state = 'pending' and available_at <= now()
        limit :window + 1) due) r
where c.state = 'running'
order by c.id
""")

# Locking is a statement of its own (see ``nesting``). What somebody else holds is left to them: a claim or the end of a
# campaign, which change the row.
LOCK = text("""
with share as materialized (
    select s.campaign_id, s.episodes
    from unnest(cast(:campaigns as bigint[]), cast(:counts as integer[])) as s(campaign_id, episodes)
    join campaign c on c.id = s.campaign_id and c.state = 'running'
), chosen as materialized (
    select e.id
    from share cross join lateral (
        select id from episode
        where campaign_id = share.campaign_id and state = 'pending' and available_at <= now()
        order by id limit share.episodes) e
    union all
    select e.id
    from share cross join lateral (
        select id from episode
        where campaign_id = share.campaign_id and state = 'queued'
            and published_at < now() - make_interval(secs => :republish)
        order by id limit :window) e
)
select id from episode
where id in (select id from chosen) and state in ('pending', 'queued')
order by id for no key update skip locked
""")

MARK = text("""
with marked as (
    update episode set state = 'queued', published_at = clock_timestamp()
    where id = any(cast(:ids as bigint[])) and state in ('pending', 'queued')
    returning id, campaign_id, attempt, purpose, replicate, generation_id, candidate_id
)
select m.id, m.campaign_id, m.attempt, m.purpose, m.replicate, a.name, g.number, c.kind, c.index as place_in_kind
from marked m
join campaign a on a.id = m.campaign_id
join generation g on g.id = m.generation_id
join candidate c on c.id = m.candidate_id
order by m.id
""")

LOCK_SENT = text("""
select id from episode where id = any(cast(:ids as bigint[])) and state = 'queued' order by id for no key update
""")

# The attempt number keeps a row out that was claimed and given back meanwhile.
PUT_BACK = text("""
update episode e set state = 'pending', published_at = null
from unnest(cast(:ids as bigint[]), cast(:attempts as integer[])) as unsent(id, attempt)
where e.id = unsent.id and e.attempt = unsent.attempt and e.state = 'queued'
""")

REFUSE = text("update episode set state = 'pending', published_at = null where id = :id and state = 'queued'")


@dataclass(frozen=True)
class Waiting:
    """A running campaign at the outbox.

    Attributes:
        weight: its share relative to the other campaigns'.
        queued: episodes at the broker.
        running: episodes that a worker has.
        ready: episodes that could be sent now; counted up to one more than the window.
        overdue: whether messages may have got lost.
    """

    campaign_id: CampaignId
    weight: float
    queued: int
    running: int
    ready: int
    overdue: bool


def waiting(conn: Connection, *, window: int, republish_seconds: float) -> list[Waiting]:
    """Return what every running campaign has under way and could send."""
    values = {"window": window, "republish": float(republish_seconds)}
    return [
        Waiting(CampaignId(row.id), row.weight, row.queued, row.running, row.ready, row.overdue)
        for row in conn.execute(WAITING, values)
    ]


def take(
    conn: Connection, counts: Mapping[CampaignId, int], *, window: int, republish_seconds: float
) -> list[Publishable]:
    """Mark episodes as sent and return them; commit, then send them, and put them back if that fails.

    The campaigns' episodes are interleaved. Each campaign's come in the order in which they were made, after those
    whose messages may be lost: sent longer ago than ``republish_seconds`` and not claimed since, at most ``window``.

    Args:
        conn: an open transaction.
        counts: how many new ones of each campaign; campaigns with 0 are looked at for lost messages.
        window: most messages of a campaign that are sent again at once.
        republish_seconds: age at which a message counts as lost; 0 sends all again.
    """
    columns = {"campaigns": list(counts), "counts": list(counts.values())}
    values = {**columns, "window": window, "republish": float(republish_seconds)}
    ids = list(conn.execute(LOCK, values).scalars())
    if not ids:
        return []
    taken: dict[CampaignId, list[Publishable]] = {}
    for row in conn.execute(MARK, {"ids": ids}):
        kind = CandidateKind(row.kind)
        words = label(row.name, row.number, kind, row.place_in_kind, row.replicate)
        found = Publishable(EpisodeId(row.id), row.attempt, Purpose(row.purpose), words)
        taken.setdefault(CampaignId(row.campaign_id), []).append(found)
    streams = {campaign: iter(found) for campaign, found in taken.items()}
    order = interleaved({campaign: len(found) for campaign, found in taken.items()})
    return [next(streams[campaign]) for campaign in order]


def put_back(conn: Connection, rows: Sequence[Publishable]) -> int:
    """Undo ``take`` for messages that were not sent and return for how many that still mattered."""
    columns = {"ids": [row.episode_id for row in rows], "attempts": [row.attempt for row in rows]}
    with atomic(conn):
        conn.execute(LOCK_SENT, columns)
        return conn.execute(PUT_BACK, columns).rowcount


def refuse(conn: Connection, episode_id: EpisodeId) -> bool:
    """Undo ``take`` for a message that reached a worker which takes no more; False when that no longer matters."""
    return conn.execute(REFUSE, {"id": episode_id}).rowcount > 0


def label(campaign: str, generation: int, kind: CandidateKind, index: int, replicate: int) -> str:
    """Return what people read in Flower and in logs, e.g. ``quickstart g3 c17 r5`` or ``quickstart g60 single2 r0``."""
    return f"{campaign} g{generation} {place(kind, index, replicate)}"


def place(kind: CandidateKind, index: int, replicate: int) -> str:
    """Return an episode's place in its generation as people read it, e.g. ``c17 r5`` or ``single2 r0``."""
    candidate = f"c{index}" if kind is CandidateKind.SAMPLE else f"{kind.value}{index}"
    return f"{candidate} r{replicate}"
