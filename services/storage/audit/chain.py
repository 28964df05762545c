"""I9 and I10: one leader after the other opens one generation after the other, and what has ended is finished."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, text

from services.core.ids import CampaignId
from services.core.states import GenerationKind
from services.storage.audit.findings import Finding, Judge, Scope, by_statements, finding, parameters

EPOCHS = text("""
with chain as (
    select g.campaign_id, g.number, g.epoch, l.epoch as newest,
        coalesce(lag(g.epoch) over (partition by g.campaign_id order by g.number), 0) as before
    from generation g cross join leader l
    where g.campaign_id = any(cast(:ids as bigint[]))
)
select campaign_id, format('generation %s', number) as place,
    format('an epoch from %s, its predecessor''s, to %s, the newest leader''s', before, newest) as wanted,
    format('epoch %s', epoch) as found
from chain where epoch < before or epoch > newest
order by campaign_id, number
""")

# A transaction closes one generation and opens the next, so that the order of its events tells more than the times.
CHAIN = text("""
with told as (
    select campaign_id, type, cast(payload ->> 'generation' as integer) as number, count(*) as times, min(id) as id
    from event
    where campaign_id = any(cast(:ids as bigint[])) and type in ('generation.opened', 'generation.closed')
    group by 1, 2, 3
), chain as (
    select g.campaign_id, g.number, g.state, g.opened_at, g.closed_at, c.state as campaign_state,
        row_number() over numbered - 1 as place_in_chain, lag(g.state) over numbered as before,
        lag(g.opened_at) over numbered as before_opened_at, opened.id as opened_id, coalesce(opened.times, 0) as opened,
        coalesce(closed.times, 0) as closed, lag(closed.id) over numbered as before_closed_id
    from generation g join campaign c on c.id = g.campaign_id
    left join told opened on opened.campaign_id = g.campaign_id and opened.number = g.number
        and opened.type = 'generation.opened'
    left join told closed on closed.campaign_id = g.campaign_id and closed.number = g.number
        and closed.type = 'generation.closed'
    where g.campaign_id = any(cast(:ids as bigint[]))
    window numbered as (partition by g.campaign_id order by g.number)
)
select c.campaign_id, format('generation %s', c.number) as place, rule.wanted, rule.found
from chain c cross join lateral (values
    (c.number = c.place_in_chain, format('number %s', c.place_in_chain), format('number %s', c.number)),
    (coalesce(c.before, 'closed') = 'closed', 'opened after its predecessor was closed',
        format('the predecessor is %s', c.before)),
    (c.opened_at >= coalesce(c.before_opened_at, c.opened_at) and coalesce(c.opened_id > c.before_closed_id, true),
        'opened after its predecessor was closed', 'opened before'),
    (coalesce(c.closed_at >= c.opened_at, true), 'closed after it was opened', format('closed at %s', c.closed_at)),
    (c.opened = 1 and c.closed = cast(c.state = 'closed' as integer),
        format('one event of its opening and %s of its closing', cast(c.state = 'closed' as integer)),
        format('%s and %s', c.opened, c.closed)),
    (c.state <> 'open' or c.campaign_state not in ('submitted', 'completed', 'failed', 'cancelled'),
        format('no open generation, the campaign is %s', c.campaign_state), 'it is open'),
    (c.state <> 'cancelled' or c.campaign_state in ('failed', 'cancelled'),
        format('no cancelled generation, the campaign is %s', c.campaign_state), 'it is cancelled')
) as rule(holds, wanted, found)
where not rule.holds
order by c.campaign_id, c.number
""")

ENDED = text("""
select e.campaign_id, format('episode %s', e.id) as place,
    format('nothing unfinished, the campaign is %s and its generation %s', c.state, g.state) as wanted,
    format('it is %s', e.state) as found
from episode e join campaign c on c.id = e.campaign_id join generation g on g.id = e.generation_id
where e.campaign_id = any(cast(:ids as bigint[])) and e.state in ('pending', 'queued', 'running')
    and (c.state in ('completed', 'failed', 'cancelled') or g.state <> 'open')
order by e.id
""")

COMPLETED = text("""
select c.id as campaign_id, array(select kind from generation g where g.campaign_id = c.id and g.state = 'closed')
    as kinds,
    (select count(*) from coordinator o where o.campaign_id = c.id and o.origin = 'search') as coordinators
from campaign c where c.id = any(cast(:ids as bigint[])) and c.state = 'completed'
order by c.id
""")

epochs = by_statements(EPOCHS)


def read_chain(conn: Connection, scope: Scope) -> Judge:
    rows = [row for statement in (CHAIN, ENDED) for row in conn.execute(statement, parameters(scope))]
    completed = [
        (CampaignId(row.campaign_id), Counter(row.kinds), int(row.coordinators))
        for row in conn.execute(COMPLETED, scope.ids)
    ]
    return lambda: [
        *(finding(scope, row) for row in rows),
        *(each for campaign in completed for each in _stages(scope, *campaign)),
    ]


def _stages(scope: Scope, campaign_id: CampaignId, closed: Counter[str], coordinators: int) -> list[Finding]:
    """Tell what a completed campaign lacks of its stages and its one coordinator."""
    campaign = scope.specifications.get(campaign_id)
    if campaign is None:
        return []
    wanted = {
        GenerationKind.LABELLING: campaign.first_training,
        GenerationKind.TRAINING: campaign.search.rounds,
        GenerationKind.VALIDATION: int(campaign.validation.problems > 0),
        GenerationKind.EVALUATION: int(campaign.evaluation.problems > 0),
    }
    counts = [(f"closed {kind} generations", count, closed[kind]) for kind, count in wanted.items()]
    return [
        Finding(scope.name(campaign_id), what, str(count), str(found))
        for what, count, found in [
            *counts,
            ("released coordinators", int(campaign.search.coordinator is None), coordinators),
        ]
        if count != found
    ]
