"""The ledger: reserve before a call, settle after it, and never let charged plus reserved pass a limit.

A call's reservation is its largest possible cost. Should a provider bill more, the truth is booked and the excess noted
as overrun; the next reservation then finds the limit passed and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import AttemptInterrupted, BudgetExhausted, LeaseLost
from services.core.ids import CallId, CampaignId
from services.core.protocol.roles import Role
from services.core.states import AttemptOutcome
from services.storage.money import amount
from services.storage.nesting import atomic
from services.storage.records import CallTotals, ClaimedEpisode, Settlement
from services.storage.text_codec import escape

RETRIES = 3

# The campaign is locked before the episode, as everywhere, and by a statement of its own (see ``nesting``). The next
# one sees what committed while this one waited, so that a lease lost meanwhile leaves no reservation behind.
LOCK_CAMPAIGN = text("select id from campaign where id = :campaign for no key update")
LOCK_CAMPAIGN_OF = text("""
select id from campaign where id = (select campaign_id from llm_call where id = :call) for no key update
""")

RESERVE = text("""
with mine as materialized (
    select e.id from episode e
    where e.id = :episode and e.attempt = :attempt and e.state = 'running' and e.lease_owner = :owner
    for no key update of e
), paid as (
    update campaign c set calls_started = c.calls_started + 1, tokens_reserved = c.tokens_reserved + :tokens,
        usd_reserved = c.usd_reserved + :usd
    from mine
    where c.id = :campaign and c.state = 'running'
        and (c.token_budget is null or c.tokens_charged + c.tokens_reserved + :tokens <= c.token_budget)
        and (c.usd_budget is null or c.usd_charged + c.usd_reserved + :usd <= c.usd_budget)
        and (c.wall_clock_budget_seconds is null or c.running_seconds
            + extract(epoch from clock_timestamp() - c.running_since) < c.wall_clock_budget_seconds)
    returning c.id
), leased as (
    update episode e set lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
    from mine, paid where e.id = mine.id
    returning e.id
), opened as (
    insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state, reserved_usd,
        reserved_tokens)
    select paid.id, leased.id, :attempt, :turn, :try, :agent, :model, :role, 'open', :usd, :tokens from paid, leased
    returning id, campaign_id
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select id, campaign_id, 'reservation', :tokens, :usd from opened
)
select id from opened
""")

WHY_NOT = text("""
select c.name, c.state, c.token_budget, c.tokens_charged, c.tokens_reserved, c.usd_budget, c.usd_charged,
    c.usd_reserved, c.wall_clock_budget_seconds,
    c.running_seconds + coalesce(extract(epoch from clock_timestamp() - c.running_since), 0) as seconds,
    coalesce(e.attempt = :attempt and e.state = 'running' and e.lease_owner = :owner, false) as mine
from campaign c left join episode e on e.id = :episode and e.campaign_id = c.id
where c.id = :campaign
""")

SETTLE = text("""
with closed as (
    update llm_call l set state = case when cast(:usd as numeric) is null then 'unknown' else 'settled' end,
        prompt_tokens = :prompt, completion_tokens = :completion,
        estimated = :estimated or cast(:usd as numeric) is null,
        cost_usd = coalesce(cast(:usd as numeric), l.reserved_usd), latency_seconds = :latency,
        finish_reason = :finish, error_kind = :error, cache_hit = :hit, settled_at = clock_timestamp()
    where l.id = :call and l.state = 'open'
    returning l.id, l.campaign_id, l.reserved_tokens, l.reserved_usd, l.cost_usd,
        coalesce(cast(:tokens as bigint), case when l.state = 'unknown' then l.reserved_tokens else 0 end) as tokens
), paid as (
    update campaign c set tokens_charged = c.tokens_charged + x.tokens,
        tokens_reserved = c.tokens_reserved - x.reserved_tokens,
        tokens_overrun = c.tokens_overrun + greatest(x.tokens - x.reserved_tokens, 0),
        usd_charged = c.usd_charged + x.cost_usd, usd_reserved = c.usd_reserved - x.reserved_usd,
        usd_overrun = c.usd_overrun + greatest(x.cost_usd - x.reserved_usd, 0)
    from closed x where c.id = x.campaign_id
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select id, campaign_id, 'charge', tokens, cost_usd from closed
    union all
    select id, campaign_id, 'release', reserved_tokens, reserved_usd from closed
)
select id from closed
""")

# The caller has locked the campaigns.
ABANDONED = text("""
with doomed as materialized (
    select l.id from llm_call l join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
    where l.campaign_id = any(cast(:ids as bigint[])) and l.state = 'open' and (a.outcome = 'lost'
        or a.outcome <> 'running' and l.opened_at < now() - make_interval(secs => :orphan))
    order by l.id for no key update of l
), closed as (
    update llm_call l set state = 'unknown', estimated = true, cost_usd = l.reserved_usd, error_kind = 'Abandoned',
        settled_at = clock_timestamp()
    from doomed where l.id = doomed.id and l.state = 'open'
    returning l.id, l.campaign_id, l.reserved_tokens, l.reserved_usd
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select c.id, c.campaign_id, k.kind, c.reserved_tokens, c.reserved_usd
    from closed c cross join (values ('charge'), ('release')) as k(kind)
), sums as (
    select campaign_id, count(*) as calls, sum(reserved_tokens) as tokens, sum(reserved_usd) as usd
    from closed group by campaign_id
)
update campaign c set tokens_charged = c.tokens_charged + s.tokens, tokens_reserved = c.tokens_reserved - s.tokens,
    usd_charged = c.usd_charged + s.usd, usd_reserved = c.usd_reserved - s.usd
from sums s where c.id = s.campaign_id
returning s.calls
""")

TOTALS = text("""
select l.model, l.role, a.outcome, count(*) as calls, count(l.error_kind) as errors,
    coalesce(sum(e.tokens), 0) as tokens, coalesce(sum(e.usd), 0) as usd
from llm_call l
join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
left join ledger_entry e on e.llm_call_id = l.id and e.kind = 'charge'
where l.campaign_id = :campaign
group by l.model, l.role, a.outcome
order by l.model, l.role, a.outcome
""")


def reserve_call(
    conn: Connection,
    claim: ClaimedEpisode,
    *,
    turn: int,
    try_: int,
    agent: int,
    model: str,
    role: Role,
    tokens: int,
    usd: Decimal,
    lease_seconds: float,
) -> CallId:
    """Reserve a call's largest cost and extend the lease; the call may start when this returns.

    Args:
        conn: a connection in autocommit.
        claim: the attempt that calls.
        turn: 1-based turn.
        try_: 1-based try within the turn; each try reserves anew.
        agent: place of the model in the pool.
        model: the campaign's name for it.
        role: what it acts as.
        tokens: most tokens it can use, prompt and completion.
        usd: most it can cost.
        lease_seconds: the lease from now.

    Raises:
        BudgetExhausted: scope ``tokens``, ``USD`` or ``wall clock seconds``. While other calls hold reservations, some
            of it may come free again.
        LeaseLost: the attempt is no longer this worker's.
        AttemptInterrupted: the campaign is paused or has ended.
    """
    values = {
        "campaign": claim.campaign_id,
        "episode": claim.episode_id,
        "attempt": claim.attempt,
        "owner": claim.owner,
        "turn": turn,
        "try": try_,
        "agent": agent,
        "model": escape(model),
        "role": role.value,
        "tokens": tokens,
        "usd": amount(usd),
        "lease": float(lease_seconds),
    }
    # What stood in the way may be gone when it is looked at, released by another call: then try again.
    for _ in range(RETRIES):
        with atomic(conn):
            conn.execute(LOCK_CAMPAIGN, values)
            call = conn.execute(RESERVE, values).scalar_one_or_none()
        if call is not None:
            return CallId(call)
        _raise_reason(conn, claim, tokens, amount(usd))
    raise AttemptInterrupted(f"{claim.label}: the budget is contended; try again later")


def settle_call(conn: Connection, call_id: CallId, settlement: Settlement) -> bool:
    """Charge what a call really cost and release its reservation; False when it was settled or booked before.

    Valid for a lost attempt too: money spent stays spent.
    """
    usage = settlement.usage
    values = {
        "call": call_id,
        "usd": None if settlement.cost is None else amount(settlement.cost),
        "tokens": None if usage is None else usage.total,
        "prompt": None if usage is None else usage.prompt_tokens,
        "completion": None if usage is None else usage.completion_tokens,
        "estimated": usage is not None and usage.estimated,
        "latency": max(0.0, float(settlement.latency_seconds)),
        "finish": None if settlement.finish_reason is None else escape(settlement.finish_reason),
        "error": settlement.error_kind,
        "hit": settlement.cache_hit,
    }
    with atomic(conn):
        conn.execute(LOCK_CAMPAIGN_OF, values)
        return conn.execute(SETTLE, values).scalar_one_or_none() is not None


def book_abandoned(conn: Connection, campaigns: Sequence[CampaignId], orphan_seconds: float) -> int:
    """Charge open calls of lost attempts at their reservations and return how many; part of the leader's sweep.

    The caller holds the campaigns' rows. Calls of attempts that ended otherwise follow after ``orphan_seconds``.
    """
    values = {"ids": list(campaigns), "orphan": float(orphan_seconds)}
    return sum(conn.execute(ABANDONED, values).scalars())


def totals(conn: Connection, campaign_id: CampaignId) -> list[CallTotals]:
    """Return calls, tokens and USD per model, role and outcome of the attempt, so that repeated work stands apart."""
    return [
        CallTotals(
            row.model,
            Role(row.role),
            AttemptOutcome(row.outcome),
            row.calls,
            row.errors,
            int(row.tokens),
            Decimal(row.usd),
        )
        for row in conn.execute(TOTALS, {"campaign": campaign_id})
    ]


def _raise_reason(conn: Connection, claim: ClaimedEpisode, tokens: int, usd: Decimal) -> None:
    """Raise what forbids the call; return when nothing does any more."""
    fence = {"episode": claim.episode_id, "attempt": claim.attempt, "owner": claim.owner}
    row = conn.execute(WHY_NOT, {"campaign": claim.campaign_id, **fence}).one()
    if not row.mine:
        raise LeaseLost(claim.episode_id, claim.attempt)
    if row.state != "running":
        raise AttemptInterrupted(f"{claim.label}: campaign {row.name} is {row.state}")
    _raise_budget(row, tokens, usd)


def _raise_budget(row: Row[Any], tokens: int, usd: Decimal) -> None:
    if row.token_budget is not None and row.tokens_charged + row.tokens_reserved + tokens > row.token_budget:
        raise BudgetExhausted("tokens", row.token_budget, row.tokens_charged, row.tokens_reserved, tokens)
    if row.usd_budget is not None and row.usd_charged + row.usd_reserved + usd > row.usd_budget:
        raise BudgetExhausted("USD", row.usd_budget, row.usd_charged, row.usd_reserved, usd)
    limit = row.wall_clock_budget_seconds
    if limit is not None and row.seconds >= limit:
        raise BudgetExhausted("wall clock seconds", Decimal(str(limit)), round(Decimal(row.seconds), 1), 0, 0)
