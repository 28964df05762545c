"""What a campaign came to, to the bit, and whether its books balance; names and row numbers play no part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from services.core.ids import CampaignId
from services.storage import campaigns, coordinators, generations
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord

# One episode, told from the others without its row number.
PLACE = "g.number, c.kind, c.index, e.purpose, e.replicate"
EPISODES = f"""
select {PLACE}, e.state, e.reward, e.termination, e.turns, e.problem_id - (
    select min(id) from problem where campaign_id = e.campaign_id), e.seed
from episode e join generation g on g.id = e.generation_id join candidate c on c.id = e.candidate_id
where e.campaign_id = {{campaign}} order by 1, 2, 3, 4, 5
"""
CHARGES = f"""
select {PLACE}, l.turn, l.agent, l.model, l.role, l.prompt_tokens, l.completion_tokens, l.cost_usd
from llm_call l join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
join episode e on e.id = l.episode_id join generation g on g.id = e.generation_id
join candidate c on c.id = e.candidate_id
where l.campaign_id = {{campaign}} and a.outcome = 'done' and l.error_kind is null order by 1, 2, 3, 4, 5, 6
"""
TURNS = f"""
select {PLACE}, t.number, t.agent, t.role, t.output, t.answer, t.logits
from turn t join attempt a on a.episode_id = t.episode_id and a.number = t.attempt
join episode e on e.id = t.episode_id join generation g on g.id = e.generation_id
join candidate c on c.id = e.candidate_id
where e.campaign_id = {{campaign}} and a.outcome = 'done' order by 1, 2, 3, 4, 5, 6
"""

# Each returns no row when all is well.
BOOKS: Mapping[str, str] = {
    "a call is open": "select id from llm_call where campaign_id = {campaign} and state = 'open'",
    "a reservation is left": "select tokens_reserved, usd_reserved from campaign where id = {campaign} "
    "and (tokens_reserved <> 0 or usd_reserved <> 0)",
    "an event is not processed": "select id, type, error from event where campaign_id = {campaign} "
    "and processed_at is null",
    "an attempt still runs": "select a.episode_id, a.number from attempt a join episode e on e.id = a.episode_id "
    "where e.campaign_id = {campaign} and a.outcome = 'running'",
    "not exactly one attempt is done": "select e.id, count(a.number) from episode e "
    "left join attempt a on a.episode_id = e.id and a.outcome = 'done' where e.campaign_id = {campaign} "
    "group by e.id, e.state having count(a.number) <> case when e.state = 'scored' then 1 else 0 end",
    "an attempt is missing or too many": "select e.id, e.attempt, count(a.number) from episode e "
    "left join attempt a on a.episode_id = e.id where e.campaign_id = {campaign} "
    "group by e.id, e.attempt having count(a.number) <> e.attempt",
    "a call without its three entries": "select l.id, l.state, count(x.id) from llm_call l "
    "left join ledger_entry x on x.llm_call_id = l.id where l.campaign_id = {campaign} and not l.cache_hit "
    "group by l.id, l.state having count(x.id) <> 3",
    "an entry disagrees with its call": "select l.id, x.kind, x.usd, x.tokens from llm_call l "
    "join ledger_entry x on x.llm_call_id = l.id where l.campaign_id = {campaign} and ("
    "x.kind in ('reservation', 'release') and (x.usd <> l.reserved_usd or x.tokens <> l.reserved_tokens) "
    "or x.kind = 'charge' and x.usd <> l.cost_usd)",
    "the campaign's totals are not the sums": "select c.usd_charged, s.usd, c.tokens_charged, s.tokens, "
    "c.calls_started, s.calls from campaign c cross join lateral (select coalesce(sum(x.usd), 0) as usd, "
    "coalesce(sum(x.tokens), 0) as tokens, count(distinct l.id) as calls from llm_call l join ledger_entry x on "
    "x.llm_call_id = l.id and x.kind = 'charge' where l.campaign_id = c.id) s where c.id = {campaign} "
    "and (c.usd_charged <> s.usd or c.tokens_charged <> s.tokens or c.calls_started <> s.calls)",
    "episodes reserved are not the episodes": "select c.episodes_reserved, count(e.id) from campaign c "
    "left join episode e on e.campaign_id = c.id where c.id = {campaign} group by c.id "
    "having c.episodes_reserved <> count(e.id)",
    "a closed generation keeps a sample's vector": "select k.id from candidate k join generation g "
    "on g.id = k.generation_id where g.campaign_id = {campaign} and g.state = 'closed' and k.kind = 'sample' "
    "and k.theta is not null",
}


@dataclass(frozen=True)
class Outcome:
    """Everything that a fault must not change."""

    state: str
    generations: tuple[tuple[Any, ...], ...]
    episodes: tuple[tuple[Any, ...], ...]
    charges: tuple[tuple[Any, ...], ...]
    turns: tuple[tuple[Any, ...], ...]
    released: tuple[int, bytes, float | None] | None


def outcome_of(database: Database, campaign: CampaignId) -> Outcome:
    with database.transaction() as conn:
        record = campaigns.by_id(conn, campaign)
        return Outcome(
            str(record.state),
            tuple(
                (
                    each.number,
                    str(each.kind),
                    each.mean.tobytes(),
                    each.sigma,
                    each.checksum,
                    None if each.fitness is None else each.fitness.tobytes(),
                    str(each.summary),
                )
                for each in generations.history(conn, campaign)
            ),
            rows(conn, EPISODES, campaign),
            rows(conn, CHARGES, campaign),
            rows(conn, TURNS, campaign),
            _released(conn, record),
        )


def same_outcome(database: Database, campaign: CampaignId, reference: Outcome) -> None:
    """Fail unless the campaign came to the same as an undisturbed run, with clean books."""
    found = differences(outcome_of(database, campaign), reference) + irregularities(database, campaign)
    if found:
        raise AssertionError("; ".join(found))


def differences(got: Outcome, wanted: Outcome) -> list[str]:
    """Return what differs, each with its first difference."""
    found: list[str] = []
    for each in fields(Outcome):
        mine, theirs = getattr(got, each.name), getattr(wanted, each.name)
        if mine == theirs:
            continue
        if isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
            mine, theirs = next(pair for pair in zip(mine, theirs, strict=True) if pair[0] != pair[1])
        found.append(f"{each.name}: got {str(mine)[:300]}, wanted {str(theirs)[:300]}")
    return found


def irregularities(database: Database, campaign: CampaignId) -> list[str]:
    """Return every rule of bookkeeping that the campaign breaks; a look from outside the product."""
    with database.transaction() as conn:
        found = [(rule, rows(conn, statement, campaign)) for rule, statement in BOOKS.items()]
    return [f"{rule}: {broken[:3]}" for rule, broken in found if broken]


def billed(database: Database, campaign: CampaignId) -> tuple[Decimal, Decimal]:
    """Return the USD charged for calls with a known cost, and for those that may or may not have been billed."""
    statement = (
        "select coalesce(sum(cost_usd) filter (where state = 'settled'), 0), "
        "coalesce(sum(cost_usd) filter (where state = 'unknown'), 0) from llm_call where campaign_id = {campaign}"
    )
    with database.transaction() as conn:
        ((known, unknown),) = rows(conn, statement, campaign)
    return Decimal(known), Decimal(unknown)


def rows(conn: Connection, statement: str, campaign: CampaignId) -> tuple[tuple[Any, ...], ...]:
    found = conn.exec_driver_sql(statement.format(campaign=int(campaign)))
    return tuple(tuple(tuple(value) if isinstance(value, list) else value for value in row) for row in found)


def _released(conn: Connection, record: CampaignRecord) -> tuple[int, bytes, float | None] | None:
    if record.state != "completed":
        return None
    coordinator = coordinators.by_name(conn, record.name)
    return coordinator.generation, coordinator.theta.tobytes(), coordinator.validation
