"""How the attempts of running generations ended lately, for the decision whether to go on spending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from services.core.ids import CampaignId, GenerationId
from services.core.states import CandidateKind
from services.storage.outbox import place

# First whether anything went wrong at all, from the episodes alone: an attempt beyond the floor that neither runs nor
# was scored failed or was lost. Only then the attempts are read, those of the generation's episodes one by one ("offset
# 0" keeps the planner from reading all there are). Returned ones say nothing.
NEWEST_ENDED = text("""
with troubled as materialized (
    select c.id, c.spec_sha256, c.running_since, g.id as generation_id
    from campaign c join generation g on g.campaign_id = c.id and g.state = 'open'
    where c.state = 'running' and exists (
        select from episode e where e.generation_id = g.id
            and e.attempt - e.attempt_floor > case when e.state in ('running', 'scored') then 1 else 0 end)
)
select t.id, t.spec_sha256, n.kind, count(*) as attempts
from troubled t cross join lateral (
    select case a.outcome when 'done' then '' when 'lost' then 'LeaseExpired' else a.error_kind end as kind
    from (select id from episode where generation_id = t.generation_id and attempt > 0 offset 0) e
    cross join lateral (
        select outcome, error_kind, ended_at from attempt
        where episode_id = e.id and outcome in ('done', 'failed', 'lost') and ended_at > t.running_since offset 0) a
    order by a.ended_at desc limit :newest) n
group by t.id, t.spec_sha256, n.kind
order by t.id, attempts desc, n.kind
""")

FAILED_FOR_GOOD = text("""
select c.kind, c.index as place_in_kind, e.replicate, e.failure_kind
from episode e join candidate c on c.id = e.candidate_id
where e.generation_id = :generation and e.state = 'failed'
order by e.id limit :limit
""")


@dataclass(frozen=True)
class Ended:
    """The newest ended attempts of a campaign's open generation since it last began to run.

    Attributes:
        attempts: how many they are; those that led to a reward, failed, or were lost.
        failed: failed and lost ones by kind of error, the most frequent first.
    """

    campaign_id: CampaignId
    spec_sha256: str
    attempts: int
    failed: Mapping[str, int]


def newest_ended(conn: Connection, newest: int) -> list[Ended]:
    """Return the running campaigns in which an attempt failed or was lost, each with at most so many newest ones."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for row in conn.execute(NEWEST_ENDED, {"newest": newest}):
        found.setdefault((row.id, row.spec_sha256), {})[row.kind] = row.attempts
    return [
        Ended(CampaignId(number), sha256, sum(kinds.values()), {kind: count for kind, count in kinds.items() if kind})
        for (number, sha256), kinds in found.items()
    ]


def failed_for_good(conn: Connection, generation_id: GenerationId, limit: int) -> list[str]:
    """Return the first episodes of a generation that failed for good and why, e.g. ``c17 r5 (LeaseExpired)``."""
    return [
        f"{place(CandidateKind(row.kind), row.place_in_kind, row.replicate)} ({row.failure_kind})"
        for row in conn.execute(FAILED_FOR_GOOD, {"generation": generation_id, "limit": limit})
    ]
