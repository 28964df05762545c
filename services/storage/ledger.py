"""The ledger: reserve before a call, settle after it, and never let charged plus reserved pass a limit.

A call's reservation is its largest possible cost. Should a provider bill more, the truth is booked and the excess noted
as overrun; the next reservation then finds the limit passed and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, text

from services.core.errors import AttemptInterrupted, BudgetExhausted, LeaseLost, TrinityError
from services.core.ids import CallId, CampaignId
from services.core.protocol.roles import CallRole, Role
from services.core.states import AttemptOutcome
from services.storage import campaigns, limits
from services.storage.money import amount
from services.storage.nesting import atomic
from services.storage.operations import Reserve, Settle
from services.storage.records import CallTotals, ClaimedEpisode, Settlement
from services.storage.text_codec import escape

# The campaign is locked before the episode, as everywhere, and by a statement of its own (see ``nesting``). The next
# one sees what committed while this one waited, so that a lease lost meanwhile leaves no reservation behind.
LOCK_EPISODE = text("select id from episode where id = :episode for no key update")
LOCK_CAMPAIGN_OF = text("""
select campaign_id from llm_call l join campaign c on c.id = l.campaign_id where l.id = :call for no key update of c
""")

# In the order given: each reservation finds what the ones before it took. What does not fit here is asked again alone.
RESERVE = text("""
with wanted as materialized (
    select * from jsonb_to_recordset(cast(:rows as jsonb)) as w(place integer, campaign bigint, episode bigint,
        attempt integer, owner text, turn integer, try integer, agent integer, model text, role text, tokens bigint,
        usd numeric, lease double precision, meter text, asked text, answer text, granted boolean, probe boolean)
), before as materialized (
    select w.place, l.id from wanted w
    join llm_call l on l.episode_id = w.episode and l.attempt = w.attempt and l.turn = w.turn and l.try = w.try
    join episode e on e.id = w.episode and e.attempt = w.attempt and e.lease_owner = w.owner
    where l.state = 'open'
), mine as materialized (
    select w.*, count(*) over so_far as calls, sum(w.tokens) over so_far as all_tokens,
        sum(w.usd) over so_far as all_usd
    from wanted w
    join episode e on e.id = w.episode and e.attempt = w.attempt and e.state = 'running' and e.lease_owner = w.owner
    where w.place not in (select place from before)
    window so_far as (partition by w.campaign order by w.place)
), fits as materialized (
    select m.* from mine m join campaign c on c.id = m.campaign
    where c.state = 'running'
        and (c.call_budget is null or c.calls_started + m.calls <= c.call_budget)
        and (c.token_budget is null or c.tokens_charged + c.tokens_reserved + m.all_tokens <= c.token_budget)
        and (c.usd_budget is null or c.usd_charged + c.usd_reserved + m.all_usd <= c.usd_budget)
        and (c.wall_clock_budget_seconds is null or c.running_seconds
            + extract(epoch from clock_timestamp() - c.running_since) < c.wall_clock_budget_seconds)
        and not exists (select from meter b where b.key = m.meter
            and (b.rest_until > clock_timestamp() or b.open_until is not null and not m.probe))
), paid as (
    update campaign c set calls_started = c.calls_started + s.calls, tokens_reserved = c.tokens_reserved + s.tokens,
        usd_reserved = c.usd_reserved + s.usd
    from (select campaign, count(*) as calls, sum(tokens) as tokens, sum(usd) as usd from fits group by campaign) s
    where c.id = s.campaign
), leased as (
    update episode e set lease_expires_at = clock_timestamp() + make_interval(secs => f.lease)
    from fits f where e.id = f.episode
), opened as (
    insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state, reserved_usd,
        reserved_tokens, meter, asked, answer_key, granted_at)
    select campaign, episode, attempt, turn, try, agent, model, role, 'open', usd, tokens, meter, asked, answer,
        case when granted then clock_timestamp() end
    from fits order by place
    returning id, campaign_id, episode_id, attempt, turn, try, reserved_tokens, reserved_usd
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select id, campaign_id, 'reservation', reserved_tokens, reserved_usd from opened
)
select f.place, o.id, false as again from opened o
join fits f on f.episode = o.episode_id and f.attempt = o.attempt and f.turn = o.turn and f.try = o.try
union all
select place, id, true from before
""")

WHY_NOT = text("""
select c.name, c.state, c.call_budget, c.calls_started, c.token_budget, c.tokens_charged, c.tokens_reserved,
    c.usd_budget, c.usd_charged, c.usd_reserved, c.wall_clock_budget_seconds,
    c.running_seconds + coalesce(extract(epoch from clock_timestamp() - c.running_since), 0) as seconds,
    coalesce(e.attempt = :attempt and e.state = 'running' and e.lease_owner = :owner, false) as mine
from campaign c left join episode e on e.id = :episode and e.campaign_id = c.id
where c.id = :campaign
""")

# An answer ends a row of failures. A meter that somebody holds is left to him: to wait for it here could deadlock.
SETTLE = text("""
with ended as materialized (
    select * from jsonb_to_recordset(cast(:rows as jsonb)) as s(id bigint, usd numeric, tokens bigint, prompt bigint,
        completion bigint, estimated boolean, latency double precision, finish text, error text, meter text,
        answered boolean)
), closed as (
    update llm_call l set state = case when s.usd is null then 'unknown' else 'settled' end,
        prompt_tokens = s.prompt, completion_tokens = s.completion, estimated = s.estimated or s.usd is null,
        cost_usd = coalesce(s.usd, l.reserved_usd), latency_seconds = s.latency, finish_reason = s.finish,
        error_kind = s.error, settled_at = clock_timestamp()
    from ended s
    where l.id = s.id and l.state = 'open'
    returning l.id, l.campaign_id, l.reserved_tokens, l.reserved_usd, l.cost_usd, s.meter, s.answered,
        coalesce(s.tokens, case when l.state = 'unknown' then l.reserved_tokens else 0 end) as tokens
), sums as (
    select campaign_id, sum(tokens) as tokens, sum(reserved_tokens) as tokens_back,
        sum(greatest(tokens - reserved_tokens, 0)) as tokens_over, sum(cost_usd) as usd, sum(reserved_usd) as usd_back,
        sum(greatest(cost_usd - reserved_usd, 0)) as usd_over
    from closed group by campaign_id
), paid as (
    update campaign c set tokens_charged = c.tokens_charged + x.tokens,
        tokens_reserved = c.tokens_reserved - x.tokens_back, tokens_overrun = c.tokens_overrun + x.tokens_over,
        usd_charged = c.usd_charged + x.usd, usd_reserved = c.usd_reserved - x.usd_back,
        usd_overrun = c.usd_overrun + x.usd_over
    from sums x where c.id = x.campaign_id
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select id, campaign_id, 'charge', tokens, cost_usd from closed
    union all
    select id, campaign_id, 'release', reserved_tokens, reserved_usd from closed
), healed as (
    update meter m set failures = 0, openings = 0, open_until = null, probe_until = null
    from (select key from meter where failures > 0 and key in (select meter from closed where answered)
        for no key update skip locked) h
    where m.key = h.key
)
select id from closed
""")

# The callers have locked the campaigns. What is given up is booked at its reservation, never at nothing.
ABANDONED = text("""
select l.id from llm_call l join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
where l.campaign_id = any(cast(:ids as bigint[])) and l.state = 'open' and (a.outcome = 'lost'
    or a.outcome <> 'running' and l.opened_at < now() - make_interval(secs => :orphan))
order by l.id for no key update of l
""")
LEFT_OPEN = text("""
select id from llm_call where episode_id = :episode and attempt = :attempt and state = 'open'
order by id for no key update
""")
GIVE_UP = text("""
with closed as (
    update llm_call l set state = 'unknown', estimated = true, cost_usd = l.reserved_usd, error_kind = 'Abandoned',
        settled_at = clock_timestamp()
    where l.id = any(cast(:calls as bigint[])) and l.state = 'open'
    returning l.id, l.campaign_id, l.reserved_tokens, l.reserved_usd
), booked as (
    insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
    select c.id, c.campaign_id, k.kind, c.reserved_tokens, c.reserved_usd
    from closed c cross join (values ('charge'), ('release')) as k(kind)
), sums as (
    select campaign_id, sum(reserved_tokens) as tokens, sum(reserved_usd) as usd from closed group by campaign_id
)
update campaign c set tokens_charged = c.tokens_charged + s.tokens, tokens_reserved = c.tokens_reserved - s.tokens,
    usd_charged = c.usd_charged + s.usd, usd_reserved = c.usd_reserved - s.usd
from sums s where c.id = s.campaign_id
""")

TOTALS = text("""
select l.model, l.role, a.outcome, count(*) filter (where not l.cache_hit) as calls,
    count(*) filter (where l.cache_hit) as hits, count(l.error_kind) as errors,
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
    role: Role | CallRole,
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
    request = Reserve(claim, turn, try_, agent, model, role, tokens, usd, lease_seconds)
    with atomic(conn):
        campaigns.lock(conn, [claim.campaign_id])
        conn.execute(LOCK_EPISODE, {"episode": claim.episode_id})
        (answer,) = reserve_all(conn, [request])
    if isinstance(answer, TrinityError):
        raise answer
    return answer


def reserve_all(conn: Connection, requests: Sequence[Reserve]) -> list[CallId | TrinityError]:
    """Carry out reservations in an open transaction that holds the locks of their campaigns and episodes.

    The errors are those of ``reserve_call``, returned in place of a call; moreover Throttled, with nothing reserved,
    when a limit is used up or the provider asked for a pause, and CircuitOpen when the model is left alone. The locks
    of meters with limits are held too.
    """
    waiting = limits.admit(conn, requests)
    opened = _open(conn, [(place, request) for place, request in enumerate(requests) if place not in waiting])
    return [waiting.get(place) or opened.get(place) or _alone(conn, request) for place, request in enumerate(requests)]


def settle_call(conn: Connection, call_id: CallId, settlement: Settlement) -> bool:
    """Charge what a call really cost and release its reservation; False when it was settled or booked before.

    Valid for a lost attempt too: money spent stays spent.
    """
    with atomic(conn):
        campaign = conn.execute(LOCK_CAMPAIGN_OF, {"call": call_id}).scalar_one_or_none()
        return campaign is not None and settle_all(conn, [Settle(call_id, campaign, settlement)])[0]


def settle_all(conn: Connection, ended: Sequence[Settle]) -> list[bool]:
    """Carry out settlements in an open transaction that holds the locks of their campaigns."""
    rows = json.dumps([_settlement(each) for each in ended])
    settled = set(conn.execute(SETTLE, {"rows": rows}).scalars())
    failed = [each.meter for each in ended if each.meter and each.answered is False and each.call_id in settled]
    if failed:
        limits.failed(conn, failed)
    limits.rest(conn, [each for each in ended if each.call_id in settled])
    return [each.call_id in settled for each in ended]


def book_open_calls(conn: Connection, claim: ClaimedEpisode) -> None:
    """Charge the calls that an attempt leaves open at their reservations; the caller holds the campaign's row."""
    _give_up(conn, list(conn.execute(LEFT_OPEN, {"episode": claim.episode_id, "attempt": claim.attempt}).scalars()))


def book_abandoned(conn: Connection, campaign_ids: Sequence[CampaignId], orphan_seconds: float) -> int:
    """Charge open calls of lost attempts at their reservations and return how many; part of the leader's sweep.

    The caller holds the campaigns' rows. Calls of attempts that ended otherwise follow after ``orphan_seconds``.
    """
    abandoned = list(conn.execute(ABANDONED, {"ids": list(campaign_ids), "orphan": float(orphan_seconds)}).scalars())
    _give_up(conn, abandoned)
    return len(abandoned)


def totals(conn: Connection, campaign_id: CampaignId) -> list[CallTotals]:
    """Return calls, tokens and USD per model, role and outcome of the attempt, so that repeated work stands apart."""
    return [
        CallTotals(
            row.model,
            CallRole(row.role),
            AttemptOutcome(row.outcome),
            row.calls,
            row.errors,
            int(row.tokens),
            Decimal(row.usd),
            row.hits,
        )
        for row in conn.execute(TOTALS, {"campaign": campaign_id})
    ]


def _give_up(conn: Connection, calls: Sequence[CallId]) -> None:
    if calls:
        conn.execute(GIVE_UP, {"calls": list(calls)})


def _open(conn: Connection, requests: Sequence[tuple[int, Reserve]], *, probe: bool = False) -> dict[int, CallId]:
    """Open the calls that fit, in order, and return them by their place; ``probe`` asks a model that is half open."""
    if not requests:
        return {}
    rows = conn.execute(RESERVE, {"rows": json.dumps([_request(*each, probe) for each in requests])}).all()
    of_place = dict(requests)
    limits.grant_again(conn, [row.id for row in rows if row.again and limits.limited(of_place[row.place])])
    return {row.place: CallId(row.id) for row in rows}


def _request(place: int, each: Reserve, probe: bool) -> dict[str, Any]:
    return {
        "place": place,
        "campaign": each.claim.campaign_id,
        "episode": each.claim.episode_id,
        "attempt": each.claim.attempt,
        "owner": each.claim.owner,
        "turn": each.turn,
        "try": each.try_,
        "agent": each.agent,
        "model": escape(each.model),
        "role": each.role.value,
        "tokens": each.tokens,
        "usd": str(amount(each.usd)),
        "lease": each.lease_seconds,
        "meter": None if each.meter is None else each.meter.key,
        "asked": each.asked,
        "answer": each.answer_key,
        "granted": limits.limited(each),
        "probe": probe,
    }


def _settlement(each: Settle) -> dict[str, Any]:
    settlement, usage = each.settlement, each.settlement.usage
    return {
        "id": each.call_id,
        "usd": None if settlement.cost is None else str(amount(settlement.cost)),
        "tokens": None if usage is None else usage.total,
        "prompt": None if usage is None else usage.prompt_tokens,
        "completion": None if usage is None else usage.completion_tokens,
        "estimated": usage is not None and usage.estimated,
        "latency": max(0.0, float(settlement.latency_seconds)),
        "finish": None if settlement.finish_reason is None else escape(settlement.finish_reason),
        "error": settlement.error_kind,
        "meter": None if each.meter is None else each.meter.key,
        "answered": each.answered,
    }


def _alone(conn: Connection, request: Reserve) -> CallId | TrinityError:
    """Ask again for one call: in the batch it may have stood behind others that did not fit either."""
    if opened := _open(conn, [(0, request)]):
        return opened[0]
    refusal = _refusal(conn, request) or limits.resting(conn, request) or limits.refused(conn, request)
    if refusal is not None:
        return refusal
    if opened := _open(conn, [(0, request)], probe=True):
        return opened[0]
    # Time passed between the looks; nothing else can have changed under the locks.
    return AttemptInterrupted(f"{request.claim.label}: this call was made before")


def _refusal(conn: Connection, request: Reserve) -> TrinityError | None:
    claim, tokens, usd = request.claim, request.tokens, amount(request.usd)
    fence = {"episode": claim.episode_id, "attempt": claim.attempt, "owner": claim.owner}
    row = conn.execute(WHY_NOT, {"campaign": claim.campaign_id, **fence}).one()
    if not row.mine:
        return LeaseLost(claim.episode_id, claim.attempt)
    if row.state != "running":
        return AttemptInterrupted(f"{claim.label}: campaign {row.name} is {row.state}")
    if row.call_budget is not None and row.calls_started + 1 > row.call_budget:
        return BudgetExhausted("calls", row.call_budget, row.calls_started, 0, 1)
    if row.token_budget is not None and row.tokens_charged + row.tokens_reserved + tokens > row.token_budget:
        return BudgetExhausted("tokens", row.token_budget, row.tokens_charged, row.tokens_reserved, tokens)
    if row.usd_budget is not None and row.usd_charged + row.usd_reserved + usd > row.usd_budget:
        return BudgetExhausted("USD", row.usd_budget, row.usd_charged, row.usd_reserved, usd)
    limit = row.wall_clock_budget_seconds
    if limit is not None and row.seconds >= limit:
        return BudgetExhausted("wall clock seconds", Decimal(str(limit)), round(Decimal(row.seconds), 1), 0, 0)
    return None
