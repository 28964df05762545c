"""Changes of a campaign's state: lock the row, check the step, write it with its event, wake the scheduler.

Every function returns False when the campaign was there already, so that repeating a command is harmless.
Lock order everywhere: leader, campaign, generation, episode, attempt, call.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from sqlalchemy import Connection, text

from services.core.errors import BudgetExhausted, IllegalTransition, SpecError
from services.core.events import EventType
from services.core.ids import CampaignId
from services.core.states import CAMPAIGN_TRANSITIONS, CampaignState
from services.storage import events, leadership, limits
from services.storage.text_codec import escape

STOPPED = frozenset({CampaignState.PAUSED, CampaignState.BUDGET_EXHAUSTED})

LOCK = text("select name, state from campaign where id = :id for no key update")

# By the scope of the error that tells of it.
LIMITS = text("""
select episode_budget as episodes, call_budget as calls, token_budget as tokens, usd_budget as "USD",
    wall_clock_budget_seconds as "wall clock seconds"
from campaign where id = :id
""")

ENTER = text("""
update campaign set state = :state, stop_reason = :reason,
    running_seconds = running_seconds
        + coalesce(extract(epoch from greatest(clock_timestamp() - running_since, interval '0')), 0),
    running_since = case when :running then clock_timestamp() end,
    started_at = case when :running then coalesce(started_at, clock_timestamp()) else started_at end,
    ended_at = case when :final then clock_timestamp() end
where id = :id
""")

# Attempts are counted anew: what used them up was what the campaign was paused for.
LOCK_RETRIED = text("""
select e.id from episode e join generation g on g.id = e.generation_id
where g.campaign_id = :id and g.state = 'open' and e.state in ('pending', 'queued', 'failed') and e.attempt > 0
order by e.id for no key update of e
""")
RETRY = text("""
update episode set state = case when state = 'failed' then 'pending' else state end, attempt_floor = attempt,
    available_at = now(), failure_kind = null, failure_detail = null
where id = any(cast(:episodes as bigint[])) and state in ('pending', 'queued', 'failed')
""")

# Two statements: an attempt that began while the first one waited for its episode is visible to the second one.
LOCK_UNFINISHED = text("""
select id from episode where campaign_id = :id and state in ('pending', 'queued', 'running')
order by id for no key update
""")
CANCEL_UNFINISHED = text("""
with ended as (
    update episode set state = 'cancelled', lease_owner = null, lease_expires_at = null
    where campaign_id = :id and state in ('pending', 'queued', 'running')
    returning id, attempt
), returned as (
    update attempt a set outcome = 'returned', ended_at = clock_timestamp(), error_kind = 'CampaignEnded'
    from ended where a.episode_id = ended.id and a.number = ended.attempt and a.outcome = 'running'
)
update campaign set episodes_reserved = episodes_reserved - (select count(*) from ended where attempt = 0)
where id = :id
""")
CANCEL_GENERATION = text("""
update generation set state = 'cancelled', closed_at = clock_timestamp() where campaign_id = :id and state = 'open'
""")


def start(conn: Connection, campaign_id: CampaignId, epoch: int) -> bool:
    """Submitted becomes running. Leaves no event: the scheduler that starts it opens generation 0 right away.

    Raises:
        LeadershipLost, IllegalTransition, SpecError: see the module.
    """
    leadership.require(conn, epoch)
    return _enter(conn, campaign_id, CampaignState.RUNNING, None)


def pause(conn: Connection, campaign_id: CampaignId, reason: str) -> bool:
    """No further episode or call starts; running ones stop at their next call. Budgets and results stay as they are.

    Raises:
        IllegalTransition: the campaign has ended.
    """
    return _enter(conn, campaign_id, CampaignState.PAUSED, reason, EventType.CAMPAIGN_PAUSED)


def exhaust(conn: Connection, campaign_id: CampaignId, error: BudgetExhausted) -> bool:
    """Stop because the next step does not fit the budget; it goes on after more is granted and it is resumed.

    Returns False unless the campaign is running under that limit: of many workers that find it reached one is the
    first, and somebody may have paused or ended the campaign, or granted more, meanwhile.
    """
    row = conn.execute(LOCK, {"id": campaign_id}).one_or_none()
    if row is None or row.state != CampaignState.RUNNING or _was_raised(conn, campaign_id, error):
        return False
    figures = {name: str(getattr(error, name)) for name in ("scope", "limit", "charged", "reserved", "wanted")}
    return _enter(
        conn, campaign_id, CampaignState.BUDGET_EXHAUSTED, str(error), EventType.BUDGET_EXHAUSTED, payload=figures
    )


def resume(conn: Connection, campaign_id: CampaignId) -> bool:
    """Paused or out of budget becomes running. Failed episodes of the open generation are tried again.

    So are models that were left alone: whoever resumes expects them to answer.

    A campaign that was paused before it started has no generation yet; the scheduler then opens the first.

    Raises:
        IllegalTransition: the campaign has ended or was never started.
    """
    if not _enter(conn, campaign_id, CampaignState.RUNNING, None, EventType.CAMPAIGN_RESUMED, sources=STOPPED):
        return False
    retried = list(conn.execute(LOCK_RETRIED, {"id": campaign_id}).scalars())
    conn.execute(RETRY, {"episodes": retried})
    limits.try_again(conn, campaign_id)
    return True


def cancel(conn: Connection, campaign_id: CampaignId, reason: str) -> bool:
    """End the campaign for good; whatever is unfinished is cancelled with it, and its reservation of episodes freed.

    Calls under way settle, or are booked by the sweep when their worker is gone.

    Raises:
        IllegalTransition: the campaign has ended otherwise.
    """
    if not _enter(conn, campaign_id, CampaignState.CANCELLED, reason, EventType.CAMPAIGN_CANCELLED):
        return False
    _cancel_unfinished(conn, campaign_id)
    return True


def complete(conn: Connection, campaign_id: CampaignId, epoch: int, reason: str) -> bool:
    """End the campaign with its result. Close its last generation first.

    Raises:
        LeadershipLost, IllegalTransition: see the module.
    """
    leadership.require(conn, epoch)
    return _enter(conn, campaign_id, CampaignState.COMPLETED, reason, EventType.CAMPAIGN_COMPLETED)


def fail(conn: Connection, campaign_id: CampaignId, reason: str) -> bool:
    """End the campaign without a result; whatever is unfinished is cancelled with it.

    Raises:
        IllegalTransition: the campaign has ended otherwise.
    """
    if not _enter(conn, campaign_id, CampaignState.FAILED, reason, EventType.CAMPAIGN_FAILED):
        return False
    _cancel_unfinished(conn, campaign_id)
    return True


def _enter(
    conn: Connection,
    campaign_id: CampaignId,
    target: CampaignState,
    reason: str | None,
    event: EventType | None = None,
    *,
    sources: frozenset[CampaignState] = frozenset(CampaignState),
    payload: Mapping[str, str] | None = None,
) -> bool:
    row = conn.execute(LOCK, {"id": campaign_id}).one_or_none()
    if row is None:
        raise SpecError("campaign", campaign_id, "the number of a campaign")
    current = CampaignState(row.state)
    if current is target:
        return False
    if target not in CAMPAIGN_TRANSITIONS[current] or current not in sources:
        raise IllegalTransition(f"campaign {row.name}", current, target, _hint(current))
    values = {"id": campaign_id, "state": target.value, "reason": None if reason is None else escape(reason)}
    running = target is CampaignState.RUNNING
    conn.execute(ENTER, {**values, "running": running, "final": not CAMPAIGN_TRANSITIONS[target]})
    if event is not None:
        told = {} if reason is None else {"reason": reason}
        events.append(conn, campaign_id, event, {**told, **(payload or {})})
        events.notify(conn, campaign_id)
    return True


def _was_raised(conn: Connection, campaign_id: CampaignId, error: BudgetExhausted) -> bool:
    limit = conn.execute(LIMITS, {"id": campaign_id}).one()._asdict()[error.scope]
    return limit is not None and Decimal(str(limit)) > error.limit


def _hint(current: CampaignState) -> str:
    if not CAMPAIGN_TRANSITIONS[current]:
        return "it has ended; submit it under another name, or branch off with `manage.py campaign fork`"
    if current is CampaignState.SUBMITTED:
        return "it has not started yet; a running scheduler (`manage.py up`) starts it"
    return ""


def _cancel_unfinished(conn: Connection, campaign_id: CampaignId) -> None:
    conn.execute(CANCEL_GENERATION, {"id": campaign_id})
    conn.execute(LOCK_UNFINISHED, {"id": campaign_id})
    conn.execute(CANCEL_UNFINISHED, {"id": campaign_id})
