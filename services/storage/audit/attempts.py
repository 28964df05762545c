"""I2, I11 and I12: every episode is scored by one attempt, tried a bounded number of times, and always in reach."""

from __future__ import annotations

from sqlalchemy import text

from services.storage.audit.findings import by_statements

# A Verifier chosen before any Worker has nothing to check, and no model is asked; nor is one where a machine may decide
# and did. Older rows do not tell who gave the verdict.
ONE_SCORE = text("""
with tries as (
    select e.id, e.campaign_id, e.state, e.attempt, e.turns, count(a.number) as attempts,
        coalesce(min(a.number), 1) as first, coalesce(max(a.number), 0) as last,
        count(*) filter (where a.outcome = 'done') as done,
        count(*) filter (where a.outcome = 'done' and a.number = e.attempt) as done_now,
        count(*) filter (where a.outcome = 'running') as running,
        count(*) filter (where a.outcome = 'running' and a.number = e.attempt) as running_now
    from episode e left join attempt a on a.episode_id = e.id
    where e.campaign_id = any(cast(:ids as bigint[]))
    group by e.id
), said as (
    select e.id, e.attempt, t.attempt as by_attempt, l.id as call, t.role = 'verifier' and not coalesce(
        bool_or(t.role = 'worker') over (partition by t.episode_id, t.attempt order by t.number
            rows between unbounded preceding and 1 preceding), false)
        or coalesce(t.verdict_source = 'machine' and t.verdict = 'revise'
            and c.spec #>> '{campaign,protocol,evidence}' = 'decide', false) as silent
    from episode e join turn t on t.episode_id = e.id join campaign c on c.id = e.campaign_id
    left join llm_call l on l.episode_id = t.episode_id and l.attempt = t.attempt and l.turn = t.number and l.try = 1
        and l.agent = t.agent and l.role = t.role
    where e.campaign_id = any(cast(:ids as bigint[]))
), spoken as (
    select id, count(*) as turns, count(*) filter (where by_attempt = attempt) as turns_now,
        count(*) filter (where silent = (call is null)) as called
    from said group by id
), checked as (
    select t.*, coalesce(s.turns, 0) as spoken, coalesce(s.turns_now, 0) as spoken_now, coalesce(s.called, 0) as called,
        coalesce(t.turns, 0) as told, t.attempts = t.attempt and t.last = t.attempt and t.first = 1 as numbered,
        t.done = cast(t.state = 'scored' as integer) and t.done = t.done_now as done_right,
        t.running = cast(t.state = 'running' as integer) and t.running = t.running_now as running_right,
        coalesce(s.turns, 0) = coalesce(t.turns, 0) and coalesce(s.turns_now, 0) = coalesce(t.turns, 0) as turns_right,
        coalesce(s.called = s.turns, true) as turns_called
    from tries t left join spoken s on s.id = t.id
)
select c.campaign_id, format('episode %s, %s', c.id, c.state) as place, rule.wanted, rule.found
from checked c cross join lateral (values
    (c.numbered, format('attempts numbered 1 to %s', c.attempt),
        format('%s attempts, from %s to %s', c.attempts, c.first, c.last)),
    (c.done_right, case when c.state = 'scored' then format('attempt %s done and no other', c.attempt)
        else 'no attempt done' end, format('%s done, %s of them the current one', c.done, c.done_now)),
    (c.running_right, case when c.state = 'running' then format('attempt %s running and no other', c.attempt)
        else 'no attempt running' end, format('%s running, %s of them the current one', c.running, c.running_now)),
    (c.turns_right, format('%s turns, all of attempt %s', c.told, c.attempt),
        format('%s turns, %s of that attempt', c.spoken, c.spoken_now)),
    (c.turns_called, 'a call of the same attempt, agent and role for every turn, unless it had nothing to check',
        format('%s turns, %s of them so', c.spoken, c.called))
) as rule(holds, wanted, found)
where not (c.numbered and c.done_right and c.running_right and c.turns_right and c.turns_called) and not rule.holds
order by c.id
""")

BOUNDED = text("""
select e.campaign_id, format('episode %s', e.id) as place, format('at most %s attempts', c.max_attempts) as wanted,
    format('%s since they were last counted anew', e.attempt - e.attempt_floor) as found
from episode e join campaign c on c.id = e.campaign_id
where e.campaign_id = any(cast(:ids as bigint[])) and e.attempt - e.attempt_floor > c.max_attempts
order by e.id
""")

IN_REACH = text("""
with reach as (select now() + make_interval(secs => :reach) as latest)
select e.campaign_id, format('episode %s, %s', e.id, e.state) as place,
    case e.state when 'pending' then format('due within %s s', :reach) when 'queued' then 'a time of its message'
        else format('a lease of an owner that ends within %s s', :reach) end as wanted,
    case e.state when 'pending' then format('due at %s', e.available_at) when 'queued' then 'none'
        else format('owner %s, until %s', coalesce(e.lease_owner, 'none'),
            coalesce(cast(e.lease_expires_at as text), 'never')) end as found
from episode e join campaign c on c.id = e.campaign_id cross join reach r
where e.campaign_id = any(cast(:ids as bigint[])) and c.state = 'running' and (
    e.state = 'pending' and e.available_at > r.latest
    or e.state = 'queued' and e.published_at is null
    or e.state = 'running' and (e.lease_owner is null or e.lease_expires_at is null or e.lease_expires_at > r.latest))
order by e.id
""")

one_score = by_statements(ONE_SCORE)
bounded = by_statements(BOUNDED)
in_reach = by_statements(IN_REACH)
