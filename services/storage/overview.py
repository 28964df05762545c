"""Read models for people: lists, progress and learning curves. Nothing here locks or writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, text

from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.core.protocol.verdict import VerdictSource
from services.core.states import CampaignState, EpisodeState, GenerationKind, GenerationState, Purpose
from services.storage import campaigns
from services.storage.records import CampaignRow, CurvePoint, OutcomeCount, Progress, VerdictCount
from services.storage.text_codec import unescape

CAMPAIGN_ROWS = text("""
select c.id, c.name, c.state, c.stop_reason, c.episode_budget, c.calls_started, c.call_budget, c.weight, c.usd_charged,
    c.created_at,
    (select max(number) from generation g where g.campaign_id = c.id) as generation,
    (select count(*) from generation g join episode e on e.generation_id = g.id and e.state = 'scored'
        where g.campaign_id = c.id) as scored
from campaign c order by c.id
""")

NEWEST = text("select id, number, kind, state from generation where campaign_id = :id order by number desc limit 1")

STATES = text("select state as key, count(*) as value from episode where generation_id = :id group by state")

CHOICES = text("""
select t.agent, t.role, count(*) as turns
from episode e join turn t on t.episode_id = e.id and t.attempt = e.attempt
where e.generation_id = :id and e.state = 'scored'
group by t.agent, t.role
""")

FAILURES = text("""
select coalesce(a.error_kind, a.outcome) as key, count(*) as value
from episode e join attempt a on a.episode_id = e.id
where e.generation_id = :id and a.outcome in ('failed', 'lost')
group by 1 order by 2 desc, 1
""")

CURVE = text("""
select g.id, g.number, g.sigma, g.closed_at, f.mean_fitness, f.best_fitness, e.mean_turns, v.validation,
    coalesce(s.usd, 0) as usd
from generation g
cross join lateral (
    select avg(fitness) as mean_fitness, max(fitness) as best_fitness
    from candidate where generation_id = g.id and kind = 'sample') f
cross join lateral (
    select avg(turns) as mean_turns from episode
    where generation_id = g.id and state = 'scored' and purpose = 'training') e
cross join lateral (
    select avg(reward) as validation from episode
    where generation_id = g.id and state = 'scored' and purpose = 'validation') v
cross join lateral (
    select sum(l.cost_usd) as usd from episode e join llm_call l on l.episode_id = e.id
    where e.generation_id = g.id) s
where g.campaign_id = :id and g.kind = 'training' and g.state = 'closed' and f.mean_fitness is not null
order by g.number
""")

CURVE_CHOICES = text("""
select g.id as generation_id, t.agent, t.role, count(*) as turns
from generation g
join episode e on e.generation_id = g.id and e.state = 'scored' and e.purpose = 'training'
join turn t on t.episode_id = e.id and t.attempt = e.attempt
where g.campaign_id = :id and g.kind = 'training' and g.state = 'closed'
group by g.id, t.agent, t.role
""")

# Episodes of before there were outcomes have none.
OUTCOMES = text("""
select e.purpose, coalesce(e.outcome, e.failure_kind, 'not told') as outcome, e.state = 'failed' as failed,
    count(*) as episodes
from generation g join episode e on e.generation_id = g.id and e.state in ('scored', 'failed')
where g.campaign_id = :id
group by 1, 2, 3 order by 1, 3, 4 desc, 2
""")

# Turns of before a verdict's source was kept: nobody was asked where nothing was said.
VERDICTS = text("""
with given as (
    select t.agent, t.verdict, e.reward,
        coalesce(t.verdict_source, case when t.output = '' then 'rule' else 'model' end) as source
    from generation g
    join episode e on e.generation_id = g.id and e.state = 'scored'
    join turn t on t.episode_id = e.id and t.attempt = e.attempt and t.verdict is not null
    where g.campaign_id = :id
)
select source, case when source = 'model' then agent end as agent,
    count(*) filter (where verdict = 'accept') as accepts, count(*) filter (where verdict = 'revise') as revises,
    count(*) filter (where verdict = 'unclear') as unclear,
    avg(reward) filter (where verdict = 'accept') as accepted_reward
from given group by 1, 2 order by source = 'model' desc, 2, 1
""")

K = TypeVar("K")


def campaign_rows(conn: Connection) -> list[CampaignRow]:
    """Return one line per campaign in the order of submission."""
    return [
        CampaignRow(
            CampaignId(row.id),
            row.name,
            CampaignState(row.state),
            row.stop_reason,
            row.generation,
            row.scored,
            row.episode_budget,
            row.calls_started,
            row.call_budget,
            row.weight,
            row.usd_charged,
            row.created_at,
        )
        for row in conn.execute(CAMPAIGN_ROWS)
    ]


def progress(conn: Connection, campaign_id: CampaignId) -> Progress:
    """Return where a campaign stands: its newest generation, states, choices so far, and attempts that went wrong.

    Raises:
        SpecError: there is no such campaign.
    """
    campaign = campaigns.by_id(conn, campaign_id)
    newest = conn.execute(NEWEST, {"id": campaign_id}).one_or_none()
    if newest is None:
        return Progress(campaign, None, None, None, {}, {}, {}, {})
    of_newest = {"id": newest.id}
    agents, roles = _choices(conn.execute(CHOICES, of_newest))
    return Progress(
        campaign=campaign,
        generation=newest.number,
        generation_kind=GenerationKind(newest.kind),
        generation_state=GenerationState(newest.state),
        episodes={EpisodeState(row.key): row.value for row in conn.execute(STATES, of_newest)},
        agents=agents,
        roles=roles,
        failures={row.key: row.value for row in conn.execute(FAILURES, of_newest)},
    )


def learning_curve(conn: Connection, campaign_id: CampaignId) -> list[CurvePoint]:
    """Return one point per closed training generation, by number. USD includes repeated calls."""
    turns: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in conn.execute(CURVE_CHOICES, {"id": campaign_id}):
        turns[row.generation_id].append(row)
    points = []
    for row in conn.execute(CURVE, {"id": campaign_id}):
        agents, roles = _choices(turns[row.id])
        points.append(
            CurvePoint(
                generation=row.number,
                sigma=row.sigma,
                mean_fitness=row.mean_fitness,
                best_fitness=row.best_fitness,
                validation=row.validation,
                agent_share=_shares(agents),
                role_share=_shares(roles),
                mean_turns=None if row.mean_turns is None else float(row.mean_turns),
                usd=Decimal(row.usd),
                closed_at=row.closed_at,
            )
        )
    return points


def outcomes(conn: Connection, campaign_id: CampaignId) -> list[OutcomeCount]:
    """Return how the campaign's episodes ended by purpose, the most frequent first; episodes that failed come last."""
    return [
        OutcomeCount(Purpose(row.purpose), unescape(row.outcome), row.failed, row.episodes)
        for row in conn.execute(OUTCOMES, {"id": campaign_id})
    ]


def verdicts(conn: Connection, campaign_id: CampaignId) -> list[VerdictCount]:
    """Return what each model said as Verifier in scored episodes, then the verdicts that no model was asked for."""
    return [
        VerdictCount(VerdictSource(row.source), row.agent, row.accepts, row.revises, row.unclear, row.accepted_reward)
        for row in conn.execute(VERDICTS, {"id": campaign_id})
    ]


def _choices(rows: Iterable[Row[Any]]) -> tuple[dict[int, int], dict[Role, int]]:
    agents: dict[int, int] = defaultdict(int)
    roles: dict[Role, int] = defaultdict(int)
    for row in rows:
        agents[row.agent] += row.turns
        roles[Role(row.role)] += row.turns
    return dict(sorted(agents.items())), dict(roles)


def _shares(counts: Mapping[K, int]) -> dict[K, float]:
    total = sum(counts.values())
    return {key: count / total for key, count in counts.items()}
