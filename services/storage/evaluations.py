"""What every policy of a held-out comparison got and what it took. Nothing here locks or writes.

Only the attempt that led to a reward counts as a policy's own effort; attempts that failed, were lost or given back
stand apart, and so do the calls of a judge, which are the price of measuring and not of answering.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.ids import CampaignId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.core.states import CandidateKind, EpisodeState
from services.storage.text_codec import unescape

EPISODES = text("""
select e.id, c.kind, c.index as place_in_kind, p.key, p.family, e.replicate, e.state, e.reward, e.turns, e.termination,
    e.outcome, md5(concat_ws('|', p.question, p.scorer, p.answer, p.checks, p.scores)) as content, u.*,
    (select count(*) from attempt a where a.episode_id = e.id and a.outcome not in ('done', 'running')) as failures,
    (select count(*) from turn t where t.episode_id = e.id and t.attempt = e.attempt and t.role_source = 'chance')
        as drawn
from generation g
join episode e on e.generation_id = g.id and e.purpose = 'evaluation'
join candidate c on c.id = e.candidate_id
join problem p on p.id = e.problem_id
cross join lateral (
    select count(*) filter (where own) as calls, count(*) filter (where own and cache_hit) as hits,
        count(error_kind) filter (where own) as errors,
        count(*) filter (where own and estimated and not cache_hit) as estimated,
        coalesce(sum(prompt_tokens) filter (where own), 0) as prompt,
        coalesce(sum(completion_tokens) filter (where own), 0) as completion,
        coalesce(sum(cost_usd) filter (where own), 0) as usd,
        coalesce(sum(latency_seconds) filter (where own), 0) as latency,
        coalesce(sum(cost_usd) filter (where counted and role = 'judge'), 0) as grading_usd,
        coalesce(sum(cost_usd) filter (where not counted), 0) as uncounted_usd
    from (
        select l.*, counted, counted and l.role <> 'judge' as own
        from llm_call l cross join lateral (select e.state = 'scored' and l.attempt = e.attempt as counted) s
        where l.episode_id = e.id and l.state <> 'open') l) u
where g.campaign_id = :id and g.kind = 'evaluation'
order by c.kind, c.index, p.position, e.replicate
""")

# A kept reply was paid once, by the campaign that it was kept for; its latency stands with that call.
REUSED = text("""
with hit as materialized (
    select l.episode_id, l.agent, l.answer_key
    from generation g
    join episode e on e.generation_id = g.id and e.purpose = 'evaluation' and e.state = 'scored'
    join llm_call l on l.episode_id = e.id and l.attempt = e.attempt and l.cache_hit and l.role <> 'judge'
    where g.campaign_id = :id and g.kind = 'evaluation'
), kept as materialized (
    select key, campaign_id, prompt_tokens, completion_tokens, estimated from answer
    where key in (select answer_key from hit)
), paid as materialized (
    select distinct on (o.answer_key) o.answer_key, o.latency_seconds
    from llm_call o join kept k on k.key = o.answer_key and k.campaign_id = o.campaign_id
    where o.campaign_id in (select campaign_id from kept) and not o.cache_hit and o.state = 'settled'
        and o.error_kind is null
    order by o.answer_key, o.id
)
select h.episode_id, h.agent, k.key is not null as known, k.prompt_tokens, k.completion_tokens, k.estimated,
    p.latency_seconds
from hit h left join kept k on k.key = h.answer_key left join paid p on p.answer_key = h.answer_key
""")

CHOICES = text("""
select c.kind, c.index as place_in_kind, t.number, t.agent, t.role, count(*) as turns
from generation g
join episode e on e.generation_id = g.id and e.purpose = 'evaluation' and e.state = 'scored'
join candidate c on c.id = e.candidate_id
join turn t on t.episode_id = e.id and t.attempt = e.attempt
where g.campaign_id = :id and g.kind = 'evaluation'
group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
""")

LABELLED = text("""
select p.family, c.index as agent, avg(e.reward) as reward
from generation g
join episode e on e.generation_id = g.id and e.state = 'scored'
join candidate c on c.id = e.candidate_id and c.kind = 'single'
join problem p on p.id = e.problem_id
where g.campaign_id = :id and g.kind = 'labelling'
group by 1, 2 order by 1, 2
""")


@dataclass(frozen=True)
class Reused:
    """A call that a kept reply answered: the model, and what the reply once took; None once it was deleted."""

    agent: int
    usage: Usage | None
    latency_seconds: float | None


@dataclass(frozen=True)
class HeldOutEpisode:
    """One held-out episode of one policy.

    Tokens, USD and seconds are those of the calls that were made in the attempt that led to the reward.

    Attributes:
        content: digest of the problem's question and reference, as keys alone may be the same in other campaigns.
        turns: with ``reward``, ``termination`` and ``outcome`` None until it is scored.
        calls: what the policy asked for, repeated tries and kept replies included.
        hits: of these, answered by kept replies, which cost nothing: see ``reused``.
        errors: of these, tries that failed or brought no readable reply.
        estimated: of these, tokens that no provider counted; a call whose cost is unknown is booked at its largest.
        failures: attempts that led to no reward.
        uncounted_usd: what they cost.
        grading_usd: what a judge took to rate the answer.
        drawn: turns whose action was drawn, because a prompted coordinator named none that is possible.
    """

    candidate_kind: CandidateKind
    candidate_index: int
    problem_key: str
    content: str
    family: str
    replicate: int
    state: EpisodeState
    reward: float | None
    turns: int | None
    termination: str | None
    outcome: str | None
    calls: int
    hits: int
    errors: int
    estimated: int
    prompt_tokens: int
    completion_tokens: int
    usd: Decimal
    latency_seconds: float
    failures: int
    uncounted_usd: Decimal
    grading_usd: Decimal
    reused: tuple[Reused, ...]
    drawn: int = 0


@dataclass(frozen=True)
class Choice:
    """How often a policy's turns with this number were a model's in a role, in scored held-out episodes."""

    candidate_kind: CandidateKind
    candidate_index: int
    number: int
    agent: int
    role: Role
    turns: int


@dataclass(frozen=True)
class HeldOut:
    """The held-out comparison of a campaign as stored; ``labels`` is family -> agent -> mean reward when labelled."""

    episodes: list[HeldOutEpisode]
    choices: list[Choice]
    labels: Mapping[str, Mapping[int, float]]


def read(conn: Connection, campaign_id: CampaignId) -> HeldOut:
    """Return what every policy got and took, ordered by policy and problem; nothing before the evaluation opened."""
    of_campaign = {"id": campaign_id}
    reused: dict[int, list[Reused]] = defaultdict(list)
    for row in conn.execute(REUSED, of_campaign):
        reused[row.episode_id].append(_reused(row))
    episodes = [_episode(row, tuple(reused[row.id])) for row in conn.execute(EPISODES, of_campaign)]
    choices = [
        Choice(CandidateKind(row.kind), row.place_in_kind, row.number, row.agent, Role(row.role), row.turns)
        for row in conn.execute(CHOICES, of_campaign)
    ]
    labels: dict[str, dict[int, float]] = defaultdict(dict)
    for row in conn.execute(LABELLED, of_campaign):
        labels[unescape(row.family)][row.agent] = float(row.reward)
    return HeldOut(episodes, choices, dict(labels))


def _reused(row: Row[Any]) -> Reused:
    usage = Usage(row.prompt_tokens, row.completion_tokens, row.estimated) if row.known else None
    return Reused(row.agent, usage, row.latency_seconds)


def _episode(row: Row[Any], reused: tuple[Reused, ...]) -> HeldOutEpisode:
    return HeldOutEpisode(
        candidate_kind=CandidateKind(row.kind),
        candidate_index=row.place_in_kind,
        problem_key=unescape(row.key),
        content=row.content,
        family=unescape(row.family),
        replicate=row.replicate,
        state=EpisodeState(row.state),
        reward=row.reward,
        turns=row.turns,
        termination=row.termination,
        outcome=None if row.outcome is None else unescape(row.outcome),
        calls=row.calls,
        hits=row.hits,
        errors=row.errors,
        estimated=row.estimated,
        prompt_tokens=int(row.prompt),
        completion_tokens=int(row.completion),
        usd=Decimal(row.usd),
        latency_seconds=row.latency,
        failures=row.failures,
        uncounted_usd=Decimal(row.uncounted_usd),
        grading_usd=Decimal(row.grading_usd),
        reused=reused,
        drawn=row.drawn,
    )
