"""I7, I8 and I13: nothing stands still. These look at the clock, and hold while a scheduler leads."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, text

from services.storage.audit.findings import Judge, Scope, by_statements
from services.storage.leadership import LEADER_LOCK

LEADER = text("""
select exists (
        select from pg_locks where locktype = 'advisory' and granted and objsubid = 1
            and classid = cast(:high as oid) and objid = cast(:low as oid)
            and database = (select oid from pg_database where datname = current_database())) as held,
    extract(epoch from now() - beat_at) as age, holder
from leader where id = 1
""")

LEASES = text("""
select campaign_id, format('episode %s, attempt %s', id, attempt) as place,
    format('taken back within %s s of its expiry', :lease) as wanted,
    format('expired %s s ago', round(extract(epoch from now() - lease_expires_at))) as found
from episode
where campaign_id = any(cast(:ids as bigint[])) and state = 'running'
    and lease_expires_at < now() - make_interval(secs => :lease)
order by id
""")

STUCK = text("""
with late as (select now() - make_interval(secs => :progress) as since), running as (
    select c.id, c.running_since, g.id as generation_id, g.number, g.opened_at,
        (select max(closed_at) from generation x where x.campaign_id = c.id) as closed_at
    from campaign c left join generation g on g.campaign_id = c.id and g.state = 'open'
    where c.id = any(cast(:ids as bigint[])) and c.state = 'running'
), finished as (
    select r.id, r.number, greatest(r.opened_at, r.running_since, max(e.scored_at)) as at
    from running r join episode e on e.generation_id = r.generation_id
    group by r.id, r.number, r.opened_at, r.running_since
    having count(*) filter (where e.state in ('pending', 'queued', 'running')) = 0
), stuck as (
    select e.campaign_id, format('event %s, %s', e.id, e.type) as place, 'acted on' as wanted,
        format('due since %s, %s failed tries', greatest(e.created_at, e.next_attempt_at), e.failures) as found
    from event e cross join late
    where e.campaign_id = any(cast(:ids as bigint[])) and e.processed_at is null
        and greatest(e.created_at, e.next_attempt_at) < late.since
    union all
    select r.id, 'campaign', 'an open generation', format('none since %s', greatest(r.running_since, r.closed_at))
    from running r cross join late
    where r.generation_id is null and greatest(r.running_since, r.closed_at) < late.since
    union all
    select f.id, format('generation %s', f.number), 'closed', format('its episodes are finished since %s', f.at)
    from finished f cross join late
    where f.at < late.since
    union all
    select r.id, format('episode %s, queued', e.id), format('claimed, or sent again after %s s', :republish),
        format('sent at %s', e.published_at)
    from running r join episode e on e.generation_id = r.generation_id cross join late
    where e.state = 'queued' and e.published_at < late.since - make_interval(secs => 5 * :republish)
    union all
    select r.id, format('%s pending episodes', count(*)), 'sent, since nothing else is under way',
        format('the first is due since %s', min(e.available_at))
    from running r join episode e on e.generation_id = r.generation_id cross join late
    where e.state = 'pending' and greatest(e.available_at, r.running_since) < late.since
        and not exists (select from episode x join campaign c on c.id = x.campaign_id
            where c.state = 'running' and x.state in ('queued', 'running'))
    group by r.id
)
select campaign_id, place, format('%s within %s s', wanted, :progress) as wanted, found from stuck
order by campaign_id, place
""")

IDLE = text("""
select null as campaign_id, format('session %s, %s', pid, application_name) as place,
    format('no transaction open without a statement for %s s', :idle) as wanted,
    format('%s since %s', state, state_change) as found
from pg_stat_activity
where datname = current_database() and application_name like 'trinity%' and pid <> pg_backend_pid()
    and state like 'idle in transaction%' and state_change < clock_timestamp() - make_interval(secs => :idle)
order by pid
""")

idle = by_statements(IDLE)


def leases(conn: Connection, scope: Scope) -> Judge:
    return _with_leader(conn, scope, by_statements(LEASES)(conn, scope))


def stuck(conn: Connection, scope: Scope) -> Judge:
    return _with_leader(conn, scope, by_statements(STUCK)(conn, scope))


def _with_leader(conn: Connection, scope: Scope, judge: Judge) -> Judge:
    """Say with each finding whether somebody leads: without a leader, nothing moves."""
    leader = _leader(conn)
    return lambda: [replace(finding, found=f"{finding.found}; {leader}") for finding in judge()]


def _leader(conn: Connection) -> str:
    row = conn.execute(LEADER, {"high": LEADER_LOCK >> 32, "low": LEADER_LOCK & 0xFFFF_FFFF}).one()
    if not row.held:
        return "no scheduler leads"
    return f"{row.holder or 'a scheduler'} holds the lock of the leader, its last sign of life {row.age:.0f} s ago"
