"""Limits and breakers of models, shared by all workers: the rules of ``services.core.limits`` on the rows of the calls.

A call under limits notes when it was allowed. What counts against the limits is read from those notes while the meter's
row is locked, so no two workers count at the same time, and there is no counter that could drift. A call counts as
under way while it is open and its episode's lease lasts: a dead worker's calls stop counting with its leases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import CircuitOpen, Throttled
from services.core.ids import CampaignId
from services.core.limits.breaker import PROBED_SECONDS, Breaker, BreakerState
from services.core.limits.meter import Meter
from services.core.limits.window import COUNTED_SECONDS, Use, wait_seconds
from services.storage.operations import Reserve, Settle
from services.storage.text_codec import escape, unescape

LOCK = text("select key from meter where key = any(cast(:keys as text[])) order by key for no key update")
ADD = text("""
insert into meter (key, label) select * from unnest(cast(:keys as text[]), cast(:labels as text[]))
order by 1 on conflict (key) do nothing
""")

# A call that is asked for again has not begun; it does not stand in its own way.
USE = text("""
with own as materialized (
    select l.id from jsonb_to_recordset(cast(:rows as jsonb)) as o(episode bigint, attempt integer, turn integer,
        try integer)
    join llm_call l on l.episode_id = o.episode and l.attempt = o.attempt and l.turn = o.turn and l.try = o.try
)
select k.key, coalesce(lately.requests, 0) as requests, coalesce(lately.tokens, 0) as tokens,
    coalesce(lately.oldest, 0) as oldest, (
        select count(*) from llm_call l
        join episode e on e.id = l.episode_id and e.attempt = l.attempt and e.state = 'running'
            and e.lease_expires_at > clock_timestamp()
        where l.state = 'open' and l.meter = k.key and l.granted_at is not null and l.id not in (select id from own)
    ) as under_way
from unnest(cast(:keys as text[])) as k(key) left join lateral (
    select count(*) as requests, date_part('epoch', clock_timestamp() - min(l.granted_at)) as oldest,
        sum(case when l.state = 'open' then l.reserved_tokens
            else coalesce(l.prompt_tokens + l.completion_tokens, l.reserved_tokens) end) as tokens
    from llm_call l
    where l.meter = k.key and l.granted_at > clock_timestamp() - make_interval(secs => :counted)
        and l.id not in (select id from own)
) lately on true
""")
GRANT_AGAIN = text("update llm_call set granted_at = clock_timestamp() where id = any(cast(:ids as bigint[]))")

COLUMNS = """
select key, label, failures, openings, date_part('epoch', open_until) as open_until,
    date_part('epoch', probe_until) as probe_until, date_part('epoch', clock_timestamp()) as now from meter
"""
ONE = text(COLUMNS + "where key = :key")
ONE_LOCKED = text(COLUMNS + "where key = :key for no key update skip locked")
SEVERAL = text(COLUMNS + "where key = any(cast(:keys as text[])) order by key")
KEEP = text("""
update meter set failures = :failures, openings = :openings,
    open_until = to_timestamp(cast(:open_until as double precision)),
    probe_until = to_timestamp(cast(:probe_until as double precision))
where key = :key
""")

REST = text("""
update meter set rest_until = greatest(rest_until, clock_timestamp() + make_interval(secs => :seconds))
where key = :key
""")
# Whoever waits comes back at a moment of his own within a second, so that not all come back together.
RESTING = text("""
select date_part('epoch', rest_until - clock_timestamp()) + random() as seconds from meter
where key = :key and rest_until > clock_timestamp()
""")

TRY_AGAIN = text("""
update meter m set openings = case when open_until is null then openings else 1 end,
    open_until = case when open_until is not null then clock_timestamp() end, probe_until = null, rest_until = null
where (open_until is not null or rest_until is not null)
    and exists (select from llm_call l where l.campaign_id = :campaign and l.meter = m.key)
""")

# The newest calls alone: what went wrong last week says nothing, and a table of millions is not read.
LATELY = text("""
with newest as (
    select meter, model, error_kind, state, latency_seconds
    from (select * from llm_call order by id desc limit 10 * :newest) l
    where meter is not null and not cache_hit order by id desc limit :newest
), counted as (
    select meter, max(model) as model, count(*) filter (where state <> 'open') as calls,
        count(*) filter (where state = 'open') as under_way, count(error_kind) as errors,
        mode() within group (order by error_kind) as commonest,
        percentile_cont(0.5) within group (order by latency_seconds) filter (where error_kind is null) as median
    from newest group by meter
)
select coalesce(m.key, c.meter) as key, coalesce(m.label, c.model) as label, c.model, coalesce(c.calls, 0) as calls,
    coalesce(c.under_way, 0) as under_way, coalesce(c.errors, 0) as errors, c.commonest, c.median,
    coalesce(m.failures, 0) as failures, coalesce(m.openings, 0) as openings,
    date_part('epoch', m.open_until) as open_until, date_part('epoch', m.probe_until) as probe_until,
    date_part('epoch', clock_timestamp()) as now
from meter m full join counted c on c.meter = m.key
where cast(:keys as text[]) is null or coalesce(m.key, c.meter) = any(cast(:keys as text[]))
order by label, key
""")


@dataclass(frozen=True)
class Health:
    """How a model did in the newest calls of all campaigns, and its breaker.

    Attributes:
        key: of its meter.
        label: provider's name, address and variable of the key.
        calls: ended ones.
        errors: those of them that failed, ``commonest`` being the most frequent kind.
        median_seconds: of the calls that were answered.
        breaker: closed, open or half open.
        failures: in a row, now.
        open_until: when it will be tried again, where it is not closed.
    """

    key: str
    label: str
    calls: int
    under_way: int
    errors: int
    commonest: str | None
    median_seconds: float | None
    breaker: BreakerState
    failures: int
    open_until: datetime | None


def limited(request: Reserve) -> bool:
    """Tell whether a call is under limits that all workers share."""
    return request.meter is not None and request.limits.any


def lock(conn: Connection, meters: Iterable[Meter]) -> None:
    """Lock meters, made if absent, after campaigns and episodes; a statement of its own (see ``nesting``)."""
    wanted = {meter.key: escape(meter.label) for meter in meters}
    keys = sorted(wanted)
    if keys and len(conn.execute(LOCK, {"keys": keys}).all()) < len(keys):
        conn.execute(ADD, {"keys": keys, "labels": [wanted[key] for key in keys]})
        conn.execute(LOCK, {"keys": keys})


def admit(conn: Connection, requests: Sequence[Reserve]) -> dict[int, Throttled]:
    """Return those that have to wait for a limit, by their place; the caller holds the locks of their meters."""
    places = [place for place, request in enumerate(requests) if limited(request)]
    if not places:
        return {}
    waiting: dict[int, Throttled] = {}
    used = _use(conn, [requests[place] for place in places])
    for place in places:
        request, key = requests[place], _meter(requests[place]).key
        seconds = wait_seconds(request.limits, used[key], request.tokens)
        if seconds > 0:
            waiting[place] = Throttled(request.model, seconds)
        else:
            used[key] = used[key].with_request(request.tokens)
    return waiting


def grant_again(conn: Connection, call_ids: Sequence[int]) -> None:
    """Count calls that were allowed before, and asked for again, from now on."""
    if call_ids:
        conn.execute(GRANT_AGAIN, {"ids": list(call_ids)})


def refused(conn: Connection, request: Reserve) -> CircuitOpen | None:
    """Return why a model must not be called now; None if it may, as the one call that tries it if it is half open."""
    if request.meter is None or (row := _one(conn, ONE, request.meter)) is None:
        return None
    breaker = _breaker(row)
    if (seconds := breaker.wait_seconds(row.now)) > 0:
        return CircuitOpen(request.model, seconds, lasting=breaker.lasting)
    if breaker.open_until is None:
        return None
    # Whoever holds the row is about to try the model, or to say how it did.
    row = _one(conn, ONE_LOCKED, request.meter)
    if row is None:
        return CircuitOpen(request.model, PROBED_SECONDS, lasting=breaker.lasting)
    breaker = _breaker(row)
    if (seconds := breaker.wait_seconds(row.now)) > 0:
        return CircuitOpen(request.model, seconds, lasting=breaker.lasting)
    if breaker.open_until is not None:
        _keep(conn, row.key, breaker.probed(row.now, request.lease_seconds))
    return None


def rest(conn: Connection, settled: Sequence[Settle]) -> None:
    """Keep the pauses that providers asked for; the caller holds the locks of their meters."""
    for each in settled:
        if each.meter is not None and each.rest_seconds is not None:
            conn.execute(REST, {"key": each.meter.key, "seconds": each.rest_seconds})


def resting(conn: Connection, request: Reserve) -> Throttled | None:
    """Return how long the provider wants to be left in peace; None if it may be asked."""
    row = None if request.meter is None else _one(conn, RESTING, request.meter)
    return None if row is None else Throttled(request.model, row.seconds)


def failed(conn: Connection, meters: Sequence[Meter]) -> None:
    """Note a failure for each; the caller holds their locks."""
    for row in conn.execute(SEVERAL, {"keys": sorted({meter.key for meter in meters})}).all():
        breaker = _breaker(row)
        for _ in range(sum(meter.key == row.key for meter in meters)):
            breaker = breaker.failed(row.now)
        _keep(conn, row.key, breaker)


def try_again(conn: Connection, campaign_id: CampaignId) -> None:
    """Let the campaign's models be tried at once, as if one that is left alone were so for the first time.

    The caller holds the campaign's row.
    """
    conn.execute(TRY_AGAIN, {"campaign": campaign_id})


def health(conn: Connection, keys: Sequence[str] | None = None, newest: int = 1000) -> list[Health]:
    """Return how the models did in so many newest calls, those of ``keys`` or all, in the order of their labels."""
    rows = conn.execute(LATELY, {"keys": None if keys is None else list(keys), "newest": newest})
    return [_health(row) for row in rows]


def _health(row: Row[Any]) -> Health:
    breaker = _breaker(row)
    until = None if breaker.open_until is None else datetime.fromtimestamp(breaker.open_until, UTC)
    return Health(
        row.key,
        unescape(row.label),
        row.calls,
        row.under_way,
        row.errors,
        row.commonest,
        row.median,
        breaker.state(float(row.now)),
        row.failures,
        until,
    )


def _use(conn: Connection, requests: Sequence[Reserve]) -> dict[str, Use]:
    own = [
        {"episode": each.claim.episode_id, "attempt": each.claim.attempt, "turn": each.turn, "try": each.try_}
        for each in requests
    ]
    keys = sorted({_meter(request).key for request in requests})
    rows = conn.execute(USE, {"keys": keys, "rows": json.dumps(own), "counted": COUNTED_SECONDS})
    return {row.key: Use(row.requests, int(row.tokens), row.under_way, float(row.oldest)) for row in rows}


def _meter(request: Reserve) -> Meter:
    assert request.meter is not None
    return request.meter


def _one(conn: Connection, statement: Any, meter: Meter) -> Row[Any] | None:
    return conn.execute(statement, {"key": meter.key}).one_or_none()


def _breaker(row: Row[Any]) -> Breaker:
    open_until, probe_until = (None if at is None else float(at) for at in (row.open_until, row.probe_until))
    return Breaker(row.failures, row.openings, open_until, probe_until)


def _keep(conn: Connection, key: str, breaker: Breaker) -> None:
    conn.execute(KEEP, {"key": key, **vars(breaker)})
