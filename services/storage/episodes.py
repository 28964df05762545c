"""Episodes: claimed by one worker at a time and settled once.

The claim's token together with the attempt number is the fence. A worker that was away for longer than its lease holds
an old attempt number, and none of its writes match a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import LeaseLost
from services.core.ids import CampaignId, CandidateId, EpisodeId, GenerationId
from services.core.protocol.transcript import Item
from services.core.scoring.grade import Grade
from services.core.states import CandidateKind, EpisodeState, Purpose
from services.storage import campaigns, ledger
from services.storage.binary import pack32, unpack32
from services.storage.listening import CHANNEL
from services.storage.nesting import atomic
from services.storage.operations import Claim, Score
from services.storage.outbox import label
from services.storage.records import ClaimedEpisode, Float32
from services.storage.text_codec import escape

DETAIL_LIMIT = 4000

# The second half finds what was claimed before with the same token, when the answer to that got lost.
CLAIM = text("""
with wanted as materialized (
    select * from jsonb_to_recordset(cast(:rows as jsonb))
        as w(id bigint, token text, worker text, lease double precision)
), taken as (
    update episode e set state = 'running', attempt = e.attempt + 1, lease_owner = w.token,
        lease_expires_at = clock_timestamp() + make_interval(secs => w.lease)
    from wanted w, campaign c
    where e.id = w.id and e.state in ('pending', 'queued') and e.available_at <= clock_timestamp()
        and c.id = e.campaign_id and c.state = 'running'
    returning e.id, e.attempt, e.campaign_id, e.generation_id, e.candidate_id, e.purpose, e.replicate, e.problem_id,
        e.seed, w.token, w.worker
), begun as (
    insert into attempt (episode_id, number, worker, outcome) select id, attempt, worker, 'running' from taken
), held as (
    select * from taken
    union all
    select e.id, e.attempt, e.campaign_id, e.generation_id, e.candidate_id, e.purpose, e.replicate, e.problem_id,
        e.seed, w.token, w.worker
    from wanted w join episode e on e.id = w.id and e.lease_owner = w.token
)
select h.id, h.attempt, h.campaign_id, h.generation_id, h.candidate_id, h.purpose, h.replicate, h.problem_id, h.seed,
    h.token, p.name, p.spec_sha256, g.number, c.kind, c.index as place_in_kind
from held h
join campaign p on p.id = h.campaign_id
join generation g on g.id = h.generation_id
join candidate c on c.id = h.candidate_id
""")

THETA = text("select theta from candidate where id = :id")

# A score that is already there under the same attempt number is this one, written before an answer got lost.
SCORE = text("""
with given as materialized (
    select * from jsonb_to_recordset(cast(:rows as jsonb)) as s(id bigint, attempt integer, owner text,
        reward double precision, outcome text, outcome_detail text, decided_by text, termination text, count integer,
        turns jsonb, states jsonb)
), scored as (
    update episode e set state = 'scored', reward = s.reward, outcome = s.outcome, outcome_detail = s.outcome_detail,
        decided_by = s.decided_by, termination = s.termination, turns = s.count,
        scored_at = clock_timestamp(), lease_owner = null, lease_expires_at = null
    from given s
    where e.id = s.id and e.attempt = s.attempt and e.state = 'running' and e.lease_owner = s.owner
    returning e.id, e.attempt, e.campaign_id, e.generation_id
), ended as (
    update attempt a set outcome = 'done', ended_at = clock_timestamp()
    from scored s where a.episode_id = s.id and a.number = s.attempt
), spoken as (
    insert into turn (episode_id, attempt, number, agent, role, role_source, verdict, verdict_source, text, output,
        answer, logits)
    select s.id, s.attempt, t.number, t.agent, t.role, t.role_source, t.verdict, t.verdict_source, t.text, t.output,
        t.answer, t.logits
    from scored s
    join given i on i.id = s.id and i.attempt = s.attempt
    cross join lateral jsonb_to_recordset(i.turns) as t(number integer, agent integer, role text, role_source text,
        verdict text, verdict_source text, text text, output text, answer text, logits real[])
), read as (
    insert into turn_state (episode_id, attempt, number, state)
    select s.id, s.attempt, r.number, decode(r.state, 'hex')
    from scored s
    join given i on i.id = s.id and i.attempt = s.attempt
    cross join lateral jsonb_array_elements_text(i.states) with ordinality as r(state, number)
), told as (
    insert into event (campaign_id, type, payload)
    select s.campaign_id, 'episode.scored',
        jsonb_build_object('episode', s.id, 'generation', g.number, 'attempt', s.attempt)
    from scored s join generation g on g.id = s.generation_id
)
select id, attempt, generation_id, campaign_id from scored
union all
select s.id, s.attempt, null, null from given s
join attempt a on a.episode_id = s.id and a.number = s.attempt and a.outcome = 'done'
""")

# NOTIFY goes out only when nothing else is left. Two last ones at the same time may each see the other and both stay
# silent; the scheduler's polling covers that.
NOTIFY_FINISHED = text("""
select pg_notify(:channel, cast(g.campaign as text))
from unnest(cast(:generations as bigint[]), cast(:campaigns as bigint[])) as g(id, campaign)
where not exists (
    select from episode e where e.generation_id = g.id and e.state in ('pending', 'queued', 'running'))
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
    update episode set state = 'pending', attempt_floor = attempt_floor + 1, lease_owner = null,
        lease_expires_at = null, available_at = clock_timestamp() + make_interval(secs => :seconds)
    where id = :id and attempt = :attempt and state = 'running' and lease_owner = :owner
    returning id, attempt
), ended as (
    update attempt a set outcome = 'returned', ended_at = clock_timestamp()
    from returned r where a.episode_id = r.id and a.number = r.attempt
)
select id from returned
""")


def claim(
    conn: Connection, episode_id: EpisodeId, owner: str, lease_seconds: float, worker: str | None = None
) -> ClaimedEpisode | None:
    """Take an episode under a new attempt number, or return None: somebody has it, it is done, or it may not run now.

    None is the normal answer to a duplicate message, a paused or cancelled campaign, and a retry that is not due yet.
    ``owner`` is unique to this claim; ``worker`` is who claims, for people (default: the owner).
    """
    return claim_all(conn, [Claim(episode_id, owner, worker or owner, lease_seconds)])[0]


def claim_all(conn: Connection, claims: Sequence[Claim]) -> list[ClaimedEpisode | None]:
    """Carry out claims in one statement; several of them need an open transaction that holds the episodes' locks."""
    rows = [
        {"id": claim.episode_id, "token": claim.token, "worker": claim.worker, "lease": claim.lease_seconds}
        for claim in claims
    ]
    found = {(row.id, row.token): _claimed(row) for row in conn.execute(CLAIM, {"rows": json.dumps(rows)})}
    return [found.get((claim.episode_id, claim.token)) for claim in claims]


def candidate_theta(conn: Connection, candidate_id: CandidateId) -> Float32 | None:
    """Return the candidate's vector, float32; None when it has none or its generation is closed."""
    data = conn.execute(THETA, {"id": candidate_id}).scalar_one_or_none()
    return None if data is None else unpack32(data)


def record_score(
    conn: Connection, claim: ClaimedEpisode, grade: Grade, termination: str, turns: Sequence[Item]
) -> None:
    """Settle the episode: grade, turns, the attempt's end and the event, all or nothing.

    Args:
        conn: a connection in autocommit, or a transaction.
        claim: as ``claim`` gave it.
        grade: the reward, in [0, 1], and why.
        termination: why the episode ended.
        turns: the transcript's items.

    Raises:
        LeaseLost: the attempt is no longer this worker's; nothing was written.
        ValueError: the reward is outside of [0, 1].
    """
    with atomic(conn):
        (error,) = score_all(conn, [Score(claim, grade, termination, turns)])
    if error is not None:
        raise error


def score_all(conn: Connection, scores: Sequence[Score]) -> list[LeaseLost | None]:
    """Carry out scores; several of them need an open transaction that holds the episodes' locks.

    Raises:
        ValueError: a reward is outside of [0, 1]; nothing was written.
    """
    for score in scores:
        if not 0.0 <= score.grade.reward <= 1.0:
            raise ValueError(f"a reward lies in [0, 1], got {score.grade.reward}")
    rows = conn.execute(SCORE, {"rows": json.dumps([_score(score) for score in scores])}).all()
    touched = {row.generation_id: row.campaign_id for row in rows if row.generation_id is not None}
    if touched:
        values = {"generations": list(touched), "campaigns": list(touched.values()), "channel": CHANNEL}
        conn.execute(NOTIFY_FINISHED, values)
    settled = {(row.id, row.attempt) for row in rows}
    attempts = [(score.claim.episode_id, score.claim.attempt) for score in scores]
    return [None if attempt in settled else LeaseLost(*attempt) for attempt in attempts]


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
    with atomic(conn):
        campaigns.lock(conn, [claim.campaign_id])
        row = conn.execute(FAIL, {**values, "backoff": float(backoff_seconds), "channel": CHANNEL}).one_or_none()
        if row is None:
            raise LeaseLost(claim.episode_id, claim.attempt)
        ledger.book_open_calls(conn, claim)
    return EpisodeState(row.state)


def give_back(conn: Connection, claim: ClaimedEpisode, seconds: float = 0.0) -> bool:
    """Return an unfinished episode to the queue, not as a failure; False when the lease was lost already.

    It may run again after ``seconds``.

    Calls that it left open are booked at their reservations, here as in ``record_failure``.
    """
    with atomic(conn):
        campaigns.lock(conn, [claim.campaign_id])
        if conn.execute(GIVE_BACK, {**_fence(claim), "seconds": float(seconds)}).one_or_none() is None:
            return False
        ledger.book_open_calls(conn, claim)
    return True


def _claimed(row: Row[Any]) -> ClaimedEpisode:
    kind = CandidateKind(row.kind)
    return ClaimedEpisode(
        episode_id=EpisodeId(row.id),
        attempt=row.attempt,
        owner=row.token,
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


def _score(score: Score) -> dict[str, Any]:
    return {
        "id": score.claim.episode_id,
        "attempt": score.claim.attempt,
        "owner": score.claim.owner,
        "reward": float(score.grade.reward),
        "outcome": score.grade.outcome.value,
        "outcome_detail": escape(score.grade.detail[:DETAIL_LIMIT]) or None,
        "decided_by": escape(score.grade.decided_by) or None,
        "termination": score.termination,
        "count": len(score.turns),
        "turns": [_turn(item) for item in score.turns],
        "states": [pack32(state).hex() for state in score.states],
    }


def _fence(claim: ClaimedEpisode) -> dict[str, Any]:
    return {"id": claim.episode_id, "attempt": claim.attempt, "owner": claim.owner}


def _turn(item: Item) -> dict[str, Any]:
    return {
        "number": item.number,
        "agent": item.agent,
        "role": item.role.value,
        "role_source": item.role_source.value,
        "verdict": None if item.verdict is None else item.verdict.value,
        "verdict_source": None if item.verdict_source is None else item.verdict_source.value,
        "text": escape(item.text),
        "output": escape(item.output),
        "answer": None if item.answer is None else escape(item.answer),
        "logits": None if item.logits is None else [_json_float(value) for value in item.logits],
    }


def _json_float(value: float) -> float | str:
    """JSON has no infinities; Postgres reads them from strings."""
    return float(value) if math.isfinite(value) else str(float(value))
