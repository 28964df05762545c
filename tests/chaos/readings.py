"""What the database says after a run: results free of names, numbers and times, and the history of the attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, text

GENERATIONS = text("""
select g.number, g.kind, g.state, g.sigma, g.checksum, encode(g.mean, 'hex') as mean,
    encode(g.fitness, 'hex') as fitness
from generation g join campaign c on c.id = g.campaign_id where c.name = :name order by g.number
""")

EPISODES = text("""
select g.number, k.kind, k.index as place, e.purpose, e.replicate, p.key, e.seed, e.state, e.reward,
    e.termination, e.turns
from episode e
join generation g on g.id = e.generation_id
join candidate k on k.id = e.candidate_id
join problem p on p.id = e.problem_id
join campaign c on c.id = e.campaign_id
where c.name = :name
order by g.number, k.kind, k.index, e.purpose, e.replicate
""")

CHARGES = text("""
select g.number, k.kind, k.index as place, e.purpose, e.replicate, l.turn, l.agent, l.role, l.state, l.prompt_tokens,
    l.completion_tokens, l.cost_usd
from llm_call l
join attempt a on a.episode_id = l.episode_id and a.number = l.attempt and a.outcome = 'done'
join episode e on e.id = l.episode_id
join generation g on g.id = e.generation_id
join candidate k on k.id = e.candidate_id
join campaign c on c.id = e.campaign_id
where c.name = :name
order by g.number, k.kind, k.index, e.purpose, e.replicate, l.turn, l.try
""")

COORDINATOR = text("""
select d.generation, d.validation, encode(d.theta, 'hex') as theta
from coordinator d join campaign c on c.id = d.campaign_id where c.name = :name
""")

SAMPLES = text("""
select g.id as generation, g.number, encode(g.fitness, 'hex') as fitness, k.index as place, k.fitness as stored,
    count(e.reward) as rewards, count(*) as episodes, avg(e.reward) as mean
from generation g
join campaign c on c.id = g.campaign_id
join candidate k on k.generation_id = g.id and k.kind = 'sample'
join episode e on e.candidate_id = k.id and e.purpose = 'training'
where c.name = :name and g.state = 'closed'
group by g.id, g.number, k.index, k.fitness order by g.number, k.index
""")

DONE_TWICE = text("""
select count(*) from (
    select a.episode_id from attempt a join episode e on e.id = a.episode_id join campaign c on c.id = e.campaign_id
    where c.name = :name and a.outcome = 'done' group by a.episode_id having count(*) > 1) x
""")

CHARGED_TWICE = text("""
select count(*) from (
    select l.llm_call_id from ledger_entry l join campaign c on c.id = l.campaign_id
    where c.name = :name and l.kind = 'charge' group by l.llm_call_id having count(*) > 1) x
""")

LEDGER = text("""
select count(*) as calls, count(*) filter (where l.state = 'unknown') as unknown,
    count(*) filter (where l.state = 'open') as open,
    count(*) filter (where l.state = 'settled' and l.error_kind is null) as settled,
    coalesce(sum(y.tokens), 0) as tokens, coalesce(sum(y.usd), 0) as usd,
    coalesce(sum(y.tokens) filter (where l.state = 'settled'), 0) as settled_tokens,
    coalesce(sum(y.usd) filter (where l.state = 'settled'), 0) as settled_usd
from llm_call l join campaign c on c.id = l.campaign_id
left join ledger_entry y on y.llm_call_id = l.id and y.kind = 'charge'
where c.name = :name
""")

CHARGED = text("select tokens_charged, usd_charged, tokens_reserved, usd_reserved from campaign where name = :name")

ATTEMPTS = text("""
select a.episode_id, a.number, a.worker, a.outcome, a.error_kind, extract(epoch from a.started_at) as started,
    extract(epoch from coalesce(a.ended_at, now())) as ended
from attempt a join episode e on e.id = a.episode_id join campaign c on c.id = e.campaign_id
where c.name like :names order by a.started_at
""")

SCORED = text("""
select extract(epoch from e.scored_at) as at from episode e join campaign c on c.id = e.campaign_id
where e.scored_at is not null and c.name like :names order by e.scored_at
""")

STATES = text("select name, state, stop_reason from campaign order by id")


@dataclass(frozen=True)
class Results:
    """What must not depend on the weather."""

    generations: list[tuple[Any, ...]]
    episodes: list[tuple[Any, ...]]
    charges: list[tuple[Any, ...]]
    coordinator: list[tuple[Any, ...]]

    def differences(self, other: Results) -> list[str]:
        """Return the names of the parts that differ from another run's."""
        return [part for part in vars(self) if getattr(self, part) != getattr(other, part)]


@dataclass(frozen=True)
class Ledger:
    """The ledger's sums of one campaign: without and with the calls whose cost nobody knows."""

    calls: int
    unknown: int
    open: int
    settled: int
    tokens: int
    usd: Decimal
    settled_tokens: int
    settled_usd: Decimal
    booked: tuple[int, Decimal]


@dataclass(frozen=True)
class Attempt:
    episode: int
    number: int
    worker: str
    outcome: str
    error: str | None
    started: float
    ended: float


def results(conn: Connection, name: str) -> Results:
    parts = (GENERATIONS, EPISODES, CHARGES, COORDINATOR)
    return Results(*([tuple(row) for row in conn.execute(part, {"name": name})] for part in parts))


def lost(conn: Connection, name: str) -> int:
    """Return how many episodes of a campaign have no reward."""
    return sum(row.reward is None for row in conn.execute(EPISODES, {"name": name}))


def doubled(conn: Connection, name: str) -> int:
    """Return how many episodes or calls were counted more than once, in attempts, ledger or fitness."""
    twice = sum(int(conn.execute(query, {"name": name}).scalar_one()) for query in (DONE_TWICE, CHARGED_TWICE))
    rows = conn.execute(EPISODES, {"name": name}).all()
    samples = Counter((row.number, row.kind, row.place, row.purpose, row.replicate) for row in rows)
    miscounted = sum(
        row.stored is None or row.rewards != row.episodes or abs(float(row.stored) - float(row.mean)) > 1e-12
        for row in conn.execute(SAMPLES, {"name": name})
    )
    return twice + sum(count - 1 for count in samples.values()) + int(miscounted)


def ledger(conn: Connection, name: str) -> Ledger:
    row = conn.execute(LEDGER, {"name": name}).one()
    booked = conn.execute(CHARGED, {"name": name}).one()
    return Ledger(
        row.calls,
        row.unknown,
        row.open,
        row.settled,
        int(row.tokens),
        Decimal(row.usd),
        int(row.settled_tokens),
        Decimal(row.settled_usd),
        (int(booked.tokens_charged), Decimal(booked.usd_charged)),
    )


def attempts(conn: Connection, names: str = "%") -> list[Attempt]:
    """Return the attempts of the campaigns whose names are like that, by their beginning."""
    return [
        Attempt(
            row.episode_id, row.number, row.worker, row.outcome, row.error_kind, float(row.started), float(row.ended)
        )
        for row in conn.execute(ATTEMPTS, {"names": names})
    ]


def scored_at(conn: Connection, names: str = "%") -> list[float]:
    """Return when their episodes were scored, in epoch seconds, in order."""
    return [float(row.at) for row in conn.execute(SCORED, {"names": names})]


def states(conn: Connection) -> Mapping[str, tuple[str, str | None]]:
    return {row.name: (row.state, row.stop_reason) for row in conn.execute(STATES)}
