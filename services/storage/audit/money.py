"""I3, I4 and I5: the books balance to the last digit, no limit was ever passed, and nothing calls after its end."""

from __future__ import annotations

from sqlalchemy import text

from services.storage.audit.findings import by_statements

# A kept reply answers a call that was never made: it moves no money, so that the ledger knows nothing of it.
# An ended call's tokens are those counted, else its reservation when nobody can say.
BALANCE = text("""
with counted as (
    select campaign_id, state, cache_hit, reserved_tokens, reserved_usd, cost_usd, case when state <> 'open'
        then coalesce(prompt_tokens + completion_tokens, case when state = 'unknown' then reserved_tokens else 0 end)
        end as tokens
    from llm_call where campaign_id = any(cast(:ids as bigint[]))
), calls as (
    select campaign_id, count(*) filter (where not cache_hit) as started, sum(tokens) as tokens,
        sum(reserved_tokens) filter (where state = 'open') as tokens_held,
        sum(greatest(tokens - reserved_tokens, 0)) filter (where state <> 'open') as tokens_over,
        sum(cost_usd) as usd, sum(reserved_usd) filter (where state = 'open') as usd_held,
        sum(greatest(cost_usd - reserved_usd, 0)) filter (where state <> 'open') as usd_over
    from counted group by campaign_id
), entries as (
    select campaign_id, count(*) filter (where kind = 'reservation') as started,
        sum(tokens) filter (where kind = 'charge') as tokens,
        sum(case kind when 'reservation' then tokens when 'release' then -tokens else 0 end) as tokens_held,
        sum(usd) filter (where kind = 'charge') as usd,
        sum(case kind when 'reservation' then usd when 'release' then -usd else 0 end) as usd_held
    from ledger_entry where campaign_id = any(cast(:ids as bigint[]))
    group by campaign_id
), episodes as (
    select campaign_id, count(*) as begun from episode
    where campaign_id = any(cast(:ids as bigint[])) and (state <> 'cancelled' or attempt > 0)
    group by campaign_id
)
select c.id as campaign_id, sum.name as place,
    case when sum.name = 'episodes_reserved' then format('%s, its episodes without those cancelled untried', sum.calls)
        else format('the sum over its calls, %s, and over its ledger, %s', sum.calls, sum.entries) end as wanted,
    cast(sum.total as text) as found
from campaign c
left join calls l on l.campaign_id = c.id
left join entries e on e.campaign_id = c.id
left join episodes n on n.campaign_id = c.id
cross join lateral (values
    ('episodes_reserved', cast(c.episodes_reserved as numeric), coalesce(n.begun, 0), coalesce(n.begun, 0)),
    ('calls_started', c.calls_started, coalesce(l.started, 0), coalesce(e.started, 0)),
    ('tokens_charged', c.tokens_charged, coalesce(l.tokens, 0), coalesce(e.tokens, 0)),
    ('tokens_reserved', c.tokens_reserved, coalesce(l.tokens_held, 0), coalesce(e.tokens_held, 0)),
    ('tokens_overrun', c.tokens_overrun, coalesce(l.tokens_over, 0), coalesce(l.tokens_over, 0)),
    ('usd_charged', c.usd_charged, coalesce(l.usd, 0), coalesce(e.usd, 0)),
    ('usd_reserved', c.usd_reserved, coalesce(l.usd_held, 0), coalesce(e.usd_held, 0)),
    ('usd_overrun', c.usd_overrun, coalesce(l.usd_over, 0), coalesce(l.usd_over, 0))
) as sum(name, total, calls, entries)
where c.id = any(cast(:ids as bigint[])) and (sum.total <> sum.calls or sum.total <> sum.entries)
order by c.id, sum.name
""")

ENTRIES = text("""
with booked as (
    select llm_call_id, count(*) filter (where kind = 'reservation') as reservations,
        count(*) filter (where kind = 'charge') as charges, count(*) filter (where kind = 'release') as releases,
        sum(tokens) filter (where kind = 'reservation') as reserved_tokens,
        sum(usd) filter (where kind = 'reservation') as reserved_usd,
        sum(tokens) filter (where kind = 'charge') as tokens, sum(usd) filter (where kind = 'charge') as usd,
        sum(tokens) filter (where kind = 'release') as released_tokens,
        sum(usd) filter (where kind = 'release') as released_usd,
        min(campaign_id) as campaign_id, max(campaign_id) as other_campaign_id
    from ledger_entry where campaign_id = any(cast(:ids as bigint[]))
    group by llm_call_id
), calls as (
    select l.campaign_id, l.id, l.state, l.reserved_tokens, l.reserved_usd, l.cost_usd,
        cast(not l.cache_hit as integer) as begun,
        cast(l.state <> 'open' and not l.cache_hit as integer) as ended, coalesce(l.prompt_tokens + l.completion_tokens,
            case when l.state = 'unknown' then l.reserved_tokens else 0 end) as tokens,
        coalesce(b.reservations, 0) as reservations, coalesce(b.charges, 0) as charges,
        coalesce(b.releases, 0) as releases, b.reserved_tokens as booked_tokens, b.reserved_usd as booked_usd,
        b.tokens as charged_tokens, b.usd as charged_usd, b.released_tokens, b.released_usd,
        e.campaign_id as of_episode, coalesce(b.campaign_id, l.campaign_id) as first_booked,
        coalesce(b.other_campaign_id, l.campaign_id) as last_booked
    from llm_call l join episode e on e.id = l.episode_id left join booked b on b.llm_call_id = l.id
    where l.campaign_id = any(cast(:ids as bigint[]))
), checked as (
    select *, reservations = begun and charges = ended and releases = ended as complete,
        coalesce(booked_tokens = reserved_tokens and booked_usd = reserved_usd, true) as reserved_right,
        coalesce(charged_tokens = tokens and charged_usd = cost_usd, true) as charged_right,
        coalesce(released_tokens = reserved_tokens and released_usd = reserved_usd, true) as released_right,
        state <> 'unknown' or cost_usd = reserved_usd as unknown_right,
        of_episode = campaign_id and first_booked = campaign_id and last_booked = campaign_id as at_home
    from calls
)
select c.campaign_id, format('call %s, %s', c.id, c.state) as place, rule.wanted, rule.found
from checked c cross join lateral (values
    (c.complete, format('%s reservation, %s charge, %s release', c.begun, c.ended, c.ended),
        format('%s, %s and %s', c.reservations, c.charges, c.releases)),
    (c.reserved_right, format('a reservation of %s tokens and %s USD', c.reserved_tokens, c.reserved_usd),
        format('%s and %s', c.booked_tokens, c.booked_usd)),
    (c.charged_right, format('a charge of %s tokens and %s USD', c.tokens, c.cost_usd),
        format('%s and %s', c.charged_tokens, c.charged_usd)),
    (c.released_right, format('a release of %s tokens and %s USD', c.reserved_tokens, c.reserved_usd),
        format('%s and %s', c.released_tokens, c.released_usd)),
    (c.unknown_right, format('booked at its reservation, %s USD', c.reserved_usd), format('%s USD', c.cost_usd)),
    (c.at_home, 'call, episode and ledger in one campaign', 'in several')
) as rule(holds, wanted, found)
where not (c.complete and c.reserved_right and c.charged_right and c.released_right and c.unknown_right and c.at_home)
    and not rule.holds
order by c.id
""")

LIMITS = text("""
select c.id as campaign_id, spent.name as place, format('at most %s', spent.budget) as wanted,
    cast(spent.total as text) as found
from campaign c cross join lateral (values
    ('episodes', cast(c.episodes_reserved as numeric), cast(c.episode_budget as numeric)),
    ('calls', c.calls_started, c.call_budget),
    ('tokens without overruns', c.tokens_charged + c.tokens_reserved - c.tokens_overrun, c.token_budget),
    ('USD without overruns', c.usd_charged + c.usd_reserved - c.usd_overrun, c.usd_budget)
) as spent(name, total, budget)
where c.id = any(cast(:ids as bigint[])) and spent.total > spent.budget
order by c.id, spent.name
""")

# Budgets only ever grow, so that nothing on the way may exceed what they are now. A charge stands here for its release
# as well: they are of one moment.
ON_THE_WAY = text("""
with moves as (
    select e.campaign_id, e.id, e.at, case e.kind when 'reservation' then e.tokens
            else least(e.tokens, l.reserved_tokens) - l.reserved_tokens end as tokens,
        case e.kind when 'reservation' then e.usd else least(e.usd, l.reserved_usd) - l.reserved_usd end as usd
    from ledger_entry e join llm_call l on l.id = e.llm_call_id
    where e.campaign_id = any(cast(:ids as bigint[])) and e.kind in ('reservation', 'charge')
), levels as (
    select m.*, sum(m.tokens) over so_far as all_tokens, sum(m.usd) over so_far as all_usd
    from moves m join campaign c on c.id = m.campaign_id
    where c.token_budget is not null or c.usd_budget is not null
    window so_far as (partition by m.campaign_id order by m.id)
)
select c.id as campaign_id, format('spent and reserved after %s of %s ledger entries', count(*) filter (where
        x.all_tokens > c.token_budget or x.all_usd > c.usd_budget), count(*)) as place,
    format('at most %s tokens and %s USD', coalesce(cast(c.token_budget as text), 'any'),
        coalesce(cast(c.usd_budget as text), 'any')) as wanted,
    format('up to %s and %s', max(x.all_tokens), max(x.all_usd)) as found
from levels x join campaign c on c.id = x.campaign_id
group by c.id
having max(x.all_tokens) > c.token_budget or max(x.all_usd) > c.usd_budget
order by c.id
""")

# The newest call decides: the campaign had run the longest when it was opened. How long that was is its running time
# less what it ran since. The end of a pause's transaction is known to within a lock timeout only, hence the slack.
WALL_CLOCK = text("""
with newest as (
    select c.id, c.wall_clock_budget_seconds as budget, c.running_since, c.ended_at, c.state,
        c.running_seconds + coalesce(extract(epoch from now() - c.running_since), 0) as total,
        (select max(l.opened_at) from llm_call l where l.campaign_id = c.id) as opened_at
    from campaign c where c.id = any(cast(:ids as bigint[])) and c.wall_clock_budget_seconds is not null
), steps as (
    select e.campaign_id, e.created_at as at, e.type = 'campaign.resumed' as runs from event e
    where e.campaign_id = any(cast(:ids as bigint[])) and e.type in ('campaign.resumed', 'campaign.paused',
        'campaign.completed', 'campaign.failed', 'campaign.cancelled', 'budget.exhausted')
    union all
    select id, opened_at, true from newest
    union all
    select id, now(), false from newest
), stints as (
    select n.id, s.runs, s.at, lead(s.at) over (partition by n.id order by s.at, s.runs desc) as next
    from newest n join steps s on s.campaign_id = n.id and s.at >= n.opened_at
), used as (
    select n.id, n.budget, n.opened_at,
        n.total - sum(extract(epoch from t.next - t.at)) filter (where t.runs) as seconds,
        case when n.running_since <= n.opened_at then 0 else 10 end as slack
    from newest n join stints t on t.id = n.id
    group by n.id, n.budget, n.opened_at, n.total, n.running_since
)
select id as campaign_id, format('call opened at %s', opened_at) as place,
    format('within %s s of running', budget) as wanted,
    format('after %s s', round(cast(seconds as numeric), 1)) as found
from used where seconds > budget + slack + 0.001
order by id
""")

AFTER_THE_END = text("""
select l.campaign_id, format('call %s of episode %s, attempt %s', l.id, l.episode_id, l.attempt) as place,
    case when l.opened_at > a.ended_at then format('no call after the attempt ended at %s', a.ended_at)
        else format('no call after the campaign ended at %s', c.ended_at) end as wanted,
    format('opened at %s', l.opened_at) as found
from llm_call l
join attempt a on a.episode_id = l.episode_id and a.number = l.attempt
join campaign c on c.id = l.campaign_id
where l.campaign_id = any(cast(:ids as bigint[])) and (l.opened_at > a.ended_at or l.opened_at > c.ended_at)
order by l.id
""")

balance = by_statements(BALANCE, ENTRIES)
limits = by_statements(LIMITS, ON_THE_WAY, WALL_CLOCK)
after_the_end = by_statements(AFTER_THE_END)
