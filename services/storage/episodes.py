"""Episodes: claimed by one worker at a time and settled once. Each function is one statement, hence one round trip.

Owner and attempt number are the fence. A worker that was away for longer than its lease holds an old attempt number,
and none of its writes match a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from services.core.errors import LeaseLost
from services.core.ids import CampaignId, CandidateId, EpisodeId, GenerationId
from services.core.protocol.transcript import Item
from services.core.states import CandidateKind, EpisodeState, Purpose
from services.storage.binary import unpack32
from services.storage.listening import CHANNEL
from services.storage.outbox import label
from services.storage.records import ClaimedEpisode, Float32
from services.storage.text_codec import escape

DETAIL_LIMIT = 4000

CLAIM = text("""
with taken as (
    update episode e set state = 'running', attempt = e.attempt + 1, lease_owner = :owner,
        lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
    from campaign c
    where e.id = :id and e.state in ('pending', 'queued') and e.available_at <= clock_timestamp()
        and c.id = e.campaign_id and c.state = 'running'
    returning e.id, e.attempt, e.campaign_id, e.generation_id, e.candidate_id, e.purpose, e.replicate, e.problem_id,
        e.seed, c.name, c.spec_sha256
), begun as (
    insert into attempt (episode_id, number, worker, outcome) select id, attempt, :owner, 'running' from taken
)
select t.id, t.attempt, t.campaign_id, t.generation_id, t.candidate_id, t.purpose, t.replicate, t.problem_id, t.seed,
    t.name, t.spec_sha256, g.number, c.kind, c.index as place_in_kind
from taken t
join generation g on g.id = t.generation_id
join candidate c on c.id = t.candidate_id
""")

THETA = text("select theta from candidate where id = :id")

# NOTIFY goes out only when nothing else is left. Two last ones at the same time may each see the other and both stay
# silent; the scheduler's polling covers that.
SCORE = text("""
with scored as (
    update episode set state = 'scored', reward = :reward, termination = :termination, turns = :count,
        scored_at = clock_timestamp(), lease_owner = null, lease_expires_at = null
    where id = :id and attempt = :attempt and state = 'running' and lease_owner = :owner
    returning id, attempt, campaign_id, generation_id
), ended as (
    update attempt a set outcome = 'done', ended_at = clock_timestamp()
    from scored s where a.episode_id = s.id and a.number = s.attempt
), spoken as (
    insert into turn (episode_id, attempt, number, agent, role, role_source, verdict, text, output, answer, logits)
    select s.id, s.attempt, t.number, t.agent, t.role, t.role_source, t.verdict, t.text, t.output, t.answer, t.logits
    from scored s cross join jsonb_to_recordset(cast(:turns as jsonb)) as t(number integer, agent integer, role text,
        role_source text, verdict text, text text, output text, answer text, logits real[])
), told as (
    insert into event (campaign_id, type, payload)
    select s.campaign_id, 'episode.scored',
        jsonb_build_object('episode', s.id, 'generation', g.number, 'attempt', s.attempt)
    from scored s join generation g on g.id = s.generation_id
)
select case when not exists (
        select from episode e where e.generation_id = s.generation_id and e.id <> s.id
            and e.state in ('pending', 'queued', 'running'))
    then pg_notify(:channel, cast(s.campaign_id as text)) end as notified
from scored s
""")

FAIL = text("""
with verdict as (
    select e.id, :retry and e.attempt - e.attempt_floor < c.max_attempts as again,
        least(60, :backoff * power(2, least(e.attempt - e.attempt_floor - 1, 16))) as seconds
    from episode e join campaign c on c.id = e.campaign_id
    where e.id = :id
), failed as (
    update episode e set state = case when v.again then 'pending' else 'failed' end,
        available_at = clock_timestamp() + make_interval(secs => case when v.again then v.seconds else 0 end),
        failure_kind = case when not v.again then :kind end, failure_detail = case when not v.again then :detail end,
        lease_owner = null, lease_expires_at = null
    from verdict v
    where e.id = v.id and e.attempt = :attempt and e.state = 'running' and e.lease_owner = :owner
    returning e.id, e.attempt, e.campaign_id, e.generation_id, e.state
), ended as (
    update attempt a set outcome = 'failed', ended_at = clock_timestamp(), error_kind = :kind, error_detail = :detail
    from failed f where a.episode_id = f.id and a.number = f.attempt
), told as (
    insert into event (campaign_id, type, payload)
    select f.campaign_id, 'episode.failed', jsonb_build_object('episode', f.id, 'generation', g.number,
        'attempt', f.attempt, 'kind', cast(:kind as text))
    from failed f join generation g on g.id = f.generation_id
    where f.state = 'failed'
)
select f.state, case when f.state = 'failed' and not exists (
        select from episode e where e.generation_id = f.generation_id and e.id <> f.id
            and e.state in ('pending', 'queued', 'running'))
    then pg_notify(:channel, cast(f.campaign_id as text)) end as notified
from failed f
""")

# The floor rises with the attempt, so that an attempt handed back does not count against the limit.
GIVE_BACK = text("""
with returned as (
    update episode set state = 'pending', attempt_floor = attempt_floor + 1, available_at = clock_timestamp(),
        lease_owner = null, lease_expires_at = null
    where id = :id and attempt = :attempt and state = 'running' and lease_owner = :owner
    returning id, attempt
), ended as (
    update attempt a set outcome = 'returned', ended_at = clock_timestamp()
    from returned r where a.episode_id = r.id and a.number = r.attempt
)
select id from returned
""")


def claim(conn: Connection, episode_id: EpisodeId, owner: str, lease_seconds: float) -> ClaimedEpisode | None:
    """Take an episode under a new attempt number, or return None: somebody has it, it is done, or it may not run now.

    None is the normal answer to a duplicate message, a paused or cancelled campaign, and a retry that is not due yet.
    """
    row = conn.execute(CLAIM, {"id": episode_id, "owner": owner, "lease": float(lease_seconds)}).one_or_none()
    if row is None:
        return None
    kind = CandidateKind(row.kind)
    return ClaimedEpisode(
        episode_id=EpisodeId(row.id),
        attempt=row.attempt,
        owner=owner,
        campaign_id=CampaignId(row.campaign_id),
        spec_sha256=row.spec_sha256,
        generation_id=GenerationId(row.generation_id),
        generation_number=row.number,
        candidate_id=CandidateId(row.candidate_id),
        candidate_kind=kind,
        candidate_index=row.place_in_kind,
        purpose=Purpose(row.purpose),
        replicate=row.replicate,
        problem_id=row.problem_id,
        seed=row.seed,
        label=label(row.name, row.number, kind, row.place_in_kind, row.replicate),
    )


def candidate_theta(conn: Connection, candidate_id: CandidateId) -> Float32 | None:
    """Return the candidate's vector, float32; None when it has none or its generation is closed."""
    data = conn.execute(THETA, {"id": candidate_id}).scalar_one_or_none()
    return None if data is None else unpack32(data)


def record_score(
    conn: Connection, claim: ClaimedEpisode, reward: float, termination: str, turns: Sequence[Item]
) -> None:
    """Settle the episode: reward, turns, the attempt's end and the event, all or nothing.

    Args:
        conn: a connection in autocommit, or a transaction.
        claim: as ``claim`` gave it.
        reward: in [0, 1].
        termination: why the episode ended.
        turns: the transcript's items.

    Raises:
        LeaseLost: the attempt is no longer this worker's; nothing was written.
        ValueError: the reward is outside of [0, 1].
    """
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"a reward lies in [0, 1], got {reward}")
    values = {
        **_fence(claim),
        "reward": float(reward),
        "termination": termination,
        "count": len(turns),
        "turns": json.dumps([_turn(item) for item in turns]),
        "channel": CHANNEL,
    }
    if conn.execute(SCORE, values).one_or_none() is None:
        raise LeaseLost(claim.episode_id, claim.attempt)


def record_failure(
    conn: Connection, claim: ClaimedEpisode, kind: str, detail: str, *, retry: bool, backoff_seconds: float = 1.0
) -> EpisodeState:
    """End the attempt without a reward; the episode is pending again after a back-off, or failed for good.

    Args:
        conn: a connection in autocommit, or a transaction.
        claim: as ``claim`` gave it.
        kind: class name of the error.
        detail: what it said; the first 4,000 characters are kept.
        retry: False when another attempt can not help. The campaign's ``max_attempts`` limits retries anyway.
        backoff_seconds: wait after the first failure; it doubles with each one, up to 60 seconds.

    Raises:
        LeaseLost: the attempt is no longer this worker's; nothing was written.
    """
    values = {**_fence(claim), "kind": escape(kind), "detail": escape(detail[:DETAIL_LIMIT]), "retry": retry}
    row = conn.execute(FAIL, {**values, "backoff": float(backoff_seconds), "channel": CHANNEL}).one_or_none()
    if row is None:
        raise LeaseLost(claim.episode_id, claim.attempt)
    return EpisodeState(row.state)


def give_back(conn: Connection, claim: ClaimedEpisode) -> bool:
    """Return an unfinished episode to the queue at once, not as a failure; False when the lease was lost already."""
    return conn.execute(GIVE_BACK, _fence(claim)).one_or_none() is not None


def _fence(claim: ClaimedEpisode) -> dict[str, Any]:
    return {"id": claim.episode_id, "attempt": claim.attempt, "owner": claim.owner}


def _turn(item: Item) -> dict[str, Any]:
    return {
        "number": item.number,
        "agent": item.agent,
        "role": item.role.value,
        "role_source": item.role_source.value,
        "verdict": None if item.verdict is None else item.verdict.value,
        "text": escape(item.text),
        "output": escape(item.output),
        "answer": None if item.answer is None else escape(item.answer),
        "logits": None if item.logits is None else [_json_float(value) for value in item.logits],
    }


def _json_float(value: float) -> float | str:
    """JSON has no infinities; Postgres reads them from strings."""
    return float(value) if math.isfinite(value) else str(float(value))
