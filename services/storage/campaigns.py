"""Campaigns: submitting them, reading them, and giving them more budget. Changes of state: ``campaign_states``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.campaign import BudgetLimits
from services.core.errors import IllegalTransition, SpecError
from services.core.events import EventType
from services.core.ids import CampaignId
from services.core.problem import Problem, Split, content_hash
from services.core.states import CAMPAIGN_TRANSITIONS, CampaignState
from services.storage import events, problems
from services.storage.binary import pack_json, unpack_json
from services.storage.money import amount
from services.storage.records import CampaignRecord, Fork, NewCampaign, Spend

INSERT = text("""
insert into campaign (name, state, spec, spec_sha256, seed, dimension, versions, forked_from_id, forked_from_generation,
    max_attempts, weight, episode_budget, call_budget, token_budget, usd_budget, wall_clock_budget_seconds,
    problems_sha256)
values (:name, 'submitted', cast(:spec as jsonb), :spec_sha256, :seed, :dimension, cast(:versions as jsonb),
    :fork_id, :fork_generation, :max_attempts, :weight, :episodes, :calls, :tokens, :usd, :seconds, :problems_sha256)
on conflict (name) do nothing
returning id
""")

SELECT = """
select id, name, state, spec, spec_sha256, seed, dimension, versions, forked_from_id, forked_from_generation,
    problems_sha256, max_attempts, weight, episode_budget, call_budget, token_budget, usd_budget,
    wall_clock_budget_seconds, episodes_reserved, calls_started,
    tokens_charged, tokens_reserved, tokens_overrun, usd_charged, usd_reserved, usd_overrun, stop_reason,
    running_seconds + coalesce(extract(epoch from greatest(now() - running_since, interval '0')), 0) as seconds,
    created_at, started_at, ended_at
from campaign
"""
BY_NAME = text(SELECT + "where name = :name")
BY_ID = text(SELECT + "where id = :id")
ALL = text(SELECT + "order by id")
WITH_PROBLEMS = text(SELECT + "where problems_sha256 = :sha256 order by id")
LOCK = text("select id from campaign where id = any(cast(:ids as bigint[])) order by id for no key update")
NAMES = text("select name from campaign order by id desc limit 20")

OVERDUE = text("""
select id from campaign
where state = 'running'
    and running_seconds + extract(epoch from now() - running_since) >= wall_clock_budget_seconds
order by id
""")

ADD_BUDGET = text("""
update campaign set episode_budget = episode_budget + :episodes, call_budget = call_budget + :calls,
    token_budget = token_budget + :tokens, usd_budget = usd_budget + :usd,
    wall_clock_budget_seconds = wall_clock_budget_seconds + :seconds
where id = :id and not (state = any(cast(:final as text[])))
returning id
""")

SET_WEIGHT = text("""
update campaign set weight = :weight where id = :id and not (state = any(cast(:final as text[]))) returning id
""")

FINAL = [state.value for state, targets in CAMPAIGN_TRANSITIONS.items() if not targets]


def insert(conn: Connection, new: NewCampaign, by_split: Mapping[Split, Sequence[Problem]]) -> CampaignId:
    """Submit a campaign with its problems; the scheduler hears of it when the caller's transaction commits.

    Raises:
        SpecError: the name is taken.
    """
    fork, budget = new.forked_from, new.budget
    values = {
        "name": new.name,
        "spec": pack_json(new.spec),
        "spec_sha256": new.spec_sha256,
        "seed": new.seed,
        "dimension": new.dimension,
        "versions": pack_json(new.versions),
        "fork_id": fork.campaign_id if fork else None,
        "fork_generation": fork.generation if fork else None,
        "max_attempts": new.max_attempts,
        "weight": new.weight,
        "calls": budget.calls,
        "episodes": budget.episodes,
        "tokens": budget.tokens,
        "usd": None if budget.usd is None else amount(budget.usd),
        "seconds": budget.wall_clock_seconds,
        "problems_sha256": content_hash(by_split),
    }
    inserted = conn.execute(INSERT, values).scalar_one_or_none()
    if inserted is None:
        raise SpecError("name", new.name, "a name that no other campaign has")
    campaign_id = CampaignId(inserted)
    problems.insert(conn, campaign_id, by_split)
    events.append(conn, campaign_id, EventType.CAMPAIGN_SUBMITTED, {})
    events.notify(conn, campaign_id)
    return campaign_id


def by_name(conn: Connection, name: str) -> CampaignRecord:
    """Return a campaign.

    Raises:
        SpecError: there is none of that name; lists the newest that there are.
    """
    row = conn.execute(BY_NAME, {"name": name}).one_or_none() if "\x00" not in name else None
    if row is None:
        known = ", ".join(conn.execute(NAMES).scalars()) or "none yet: submit one with `manage.py campaign submit`"
        raise SpecError("campaign", name, f"the name of a campaign ({known})")
    return _record(row)


def by_id(conn: Connection, campaign_id: CampaignId) -> CampaignRecord:
    """Return a campaign.

    Raises:
        SpecError: there is none with that number.
    """
    row = conn.execute(BY_ID, {"id": campaign_id}).one_or_none()
    if row is None:
        raise SpecError("campaign", campaign_id, "the number of a campaign")
    return _record(row)


def list_all(conn: Connection) -> list[CampaignRecord]:
    """Return every campaign in the order of submission."""
    return [_record(row) for row in conn.execute(ALL)]


def with_problems(conn: Connection, sha256: str) -> list[CampaignRecord]:
    """Return the campaigns whose problems have this content hash, in the order of submission."""
    return [_record(row) for row in conn.execute(WITH_PROBLEMS, {"sha256": sha256})]


def lock(conn: Connection, campaign_ids: Iterable[CampaignId]) -> None:
    """Lock campaigns by number: the first lock of whoever moves their money or takes a step with them.

    It is a statement of its own, so that the next one sees what committed while this one waited (see ``nesting``).
    """
    conn.execute(LOCK, {"ids": sorted(campaign_ids)})


def overdue(conn: Connection) -> list[CampaignId]:
    """Return the running campaigns that used up their wall-clock budget; only time in state running counts."""
    return [CampaignId(found) for found in conn.execute(OVERDUE).scalars()]


def add_budget(
    conn: Connection,
    campaign_id: CampaignId,
    *,
    episodes: int = 0,
    calls: int = 0,
    tokens: int = 0,
    usd: Decimal = Decimal(0),
    wall_clock_seconds: float = 0.0,
) -> None:
    """Raise limits by these amounts. A kind without a limit stays unlimited; the state stays as it is.

    Raises:
        IllegalTransition: the campaign has ended.
        ValueError: an amount is negative.
    """
    if min(episodes, calls, tokens, wall_clock_seconds) < 0:
        raise ValueError("a budget can be raised only")
    values = {"id": campaign_id, "episodes": episodes, "calls": calls, "tokens": tokens, "usd": amount(usd)}
    changed = conn.execute(ADD_BUDGET, {**values, "seconds": wall_clock_seconds, "final": FINAL}).scalar_one_or_none()
    if changed is None:
        record = by_id(conn, campaign_id)
        raise IllegalTransition(f"campaign {record.name}", record.state, "given more budget", "it has ended")


def set_weight(conn: Connection, campaign_id: CampaignId, weight: float) -> None:
    """Change a campaign's share of the workers; it acts with the next messages that are sent.

    Raises:
        IllegalTransition: the campaign has ended.
        SpecError: the weight is not a finite number above 0.
    """
    if not (math.isfinite(weight) and weight > 0):
        raise SpecError("weight", weight, "a finite number above 0")
    if conn.execute(SET_WEIGHT, {"id": campaign_id, "weight": weight, "final": FINAL}).scalar_one_or_none() is None:
        record = by_id(conn, campaign_id)
        raise IllegalTransition(f"campaign {record.name}", record.state, "weighted anew", "it has ended")


def _record(row: Row[Any]) -> CampaignRecord:
    fork = None
    if row.forked_from_id is not None:
        fork = Fork(CampaignId(row.forked_from_id), row.forked_from_generation)
    return CampaignRecord(
        id=CampaignId(row.id),
        name=row.name,
        state=CampaignState(row.state),
        spec=unpack_json(row.spec),
        spec_sha256=row.spec_sha256,
        seed=row.seed,
        dimension=row.dimension,
        versions=unpack_json(row.versions),
        forked_from=fork,
        budget=BudgetLimits(
            row.episode_budget, row.call_budget, row.token_budget, row.usd_budget, row.wall_clock_budget_seconds
        ),
        max_attempts=row.max_attempts,
        weight=row.weight,
        spend=Spend(
            row.episodes_reserved,
            row.calls_started,
            row.tokens_charged,
            row.tokens_reserved,
            row.tokens_overrun,
            row.usd_charged,
            row.usd_reserved,
            row.usd_overrun,
        ),
        running_seconds=float(row.seconds),
        stop_reason=row.stop_reason,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
