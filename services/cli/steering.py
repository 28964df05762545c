"""``campaign pause``, ``resume``, ``cancel``, ``budget``, ``weight``: one transaction each, a word about what it did.

The transaction locks the campaign first, so that commands from several machines take turns and each finds the state
that the one before it left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import TypeVar

from services.cli import render
from services.config.fields import LARGEST_AMOUNT, LARGEST_WEIGHT
from services.config.sections import LONGEST_HOURS
from services.core.campaign import BudgetLimits
from services.core.errors import DatabaseUnavailable, SpecError
from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import campaign_states, campaigns
from services.storage.engine import Connection, Database

RETRY_SECONDS = (0.2, 0.5, 1.0)
LARGEST_COUNT = 2**31 - 1
LARGEST_NUMBER = 2**62 - 1
STANDING = frozenset({CampaignState.PAUSED, CampaignState.BUDGET_EXHAUSTED})

T = TypeVar("T")


@dataclass(frozen=True)
class Raise:
    """What is added to each limit."""

    episodes: int = 0
    calls: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)
    hours: float = 0.0


def pause(database: Database, name: str, reason: str) -> None:
    change(database, name, "paused", lambda conn, record: campaign_states.pause(conn, record, reason))


def resume(database: Database, name: str) -> None:
    change(database, name, "running", campaign_states.resume)


def cancel(database: Database, name: str, reason: str) -> None:
    change(database, name, "cancelled", lambda conn, record: campaign_states.cancel(conn, record, reason))


def change(database: Database, name: str, state: str, step: Callable[[Connection, CampaignId], bool]) -> None:
    """Take the step and tell whether it changed anything."""

    def transaction() -> bool:
        with database.transaction() as conn:
            return step(conn, campaigns.by_name(conn, name).id)

    changed = patiently(transaction)
    render.show(f"campaign {name} is {state}" + ("" if changed else " already"))


def patiently(step: Callable[[], T]) -> T:
    """Repeat a step that does no harm when done twice, while the database is away or somebody holds what it needs."""
    for seconds in RETRY_SECONDS:
        try:
            return step()
        except DatabaseUnavailable as error:
            render.say(f"{error.what}; trying again")
            time.sleep(seconds)
    return step()


def weigh(database: Database, name: str, weight: float) -> None:
    """Set a campaign's share of the workers; SpecError for a weight that no campaign file could have."""
    if not 0 < weight <= LARGEST_WEIGHT:
        raise SpecError("VALUE", weight, f"a number above 0, at most {LARGEST_WEIGHT}")

    def transaction() -> None:
        with database.transaction() as conn:
            campaigns.set_weight(conn, campaigns.by_name(conn, name).id, weight)

    patiently(transaction)
    render.show(f"campaign {name} has weight {weight:g}")


def add_budget(database: Database, name: str, added: Raise, *, resume: bool) -> None:
    """Raise limits and, if wanted, let a campaign that stands go on, in one transaction.

    It is never repeated by itself: were the connection lost during the commit, the limits could be raised twice.

    Raises:
        SpecError: nothing is added, or more than a campaign can have.
        IllegalTransition: the campaign has ended.
    """
    if added == Raise():
        options = ", ".join(f"--add-{kind}" for kind in vars(added))
        raise SpecError("campaign budget", "nothing to add", f"at least one of {options}")
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        require_room(record.budget, added)
        campaigns.add_budget(
            conn,
            record.id,
            episodes=added.episodes,
            calls=added.calls,
            tokens=added.tokens,
            usd=added.usd,
            wall_clock_seconds=added.hours * 3600,
        )
        # Read again: from here on the campaign is locked and its state cannot change under us.
        resumed = resume and campaigns.by_id(conn, record.id).state in STANDING
        if resumed:
            campaign_states.resume(conn, record.id)
        record = campaigns.by_id(conn, record.id)
    render.show(f"campaign {name} may use {limits(record.budget)}" + ("; it is running" if resumed else ""))
    if record.state in STANDING:
        render.say(f"it is {record.state}; `manage.py campaign resume {name}` lets it go on")


def require_room(budget: BudgetLimits, added: Raise) -> None:
    """Raise SpecError when a limit would grow beyond what a campaign file could ask for."""
    if not isfinite(added.hours):
        raise SpecError("--add-hours", added.hours, "a number of hours")
    hours = None if budget.wall_clock_seconds is None else budget.wall_clock_seconds / 3600
    for kind, limit, more, largest in (
        ("episodes", budget.episodes, added.episodes, LARGEST_COUNT),
        ("calls", budget.calls, added.calls, LARGEST_NUMBER),
        ("tokens", budget.tokens, added.tokens, LARGEST_NUMBER),
        ("usd", budget.usd, added.usd, LARGEST_AMOUNT),
        ("hours", hours, added.hours, LONGEST_HOURS),
    ):
        if Decimal(limit or 0) + Decimal(more) > largest:
            raise SpecError(f"--add-{kind}", more, f"an amount that keeps the limit at or below {largest}")


def limits(budget: BudgetLimits) -> str:
    """Return the limits in words."""
    seconds = budget.wall_clock_seconds
    return ", ".join(
        [
            f"{render.count(budget.episodes)} episodes",
            f"{unlimited(budget.calls)} calls",
            f"{unlimited(budget.tokens)} tokens",
            "unlimited USD" if budget.usd is None else render.usd(budget.usd),
            f"{'unlimited time' if seconds is None else render.duration(seconds)} in state running",
        ]
    )


def unlimited(value: int | None) -> str:
    return "unlimited" if value is None else render.count(value)


def amount(text: str) -> Decimal:
    """Return an amount of USD; SpecError unless it is a plain number that is not negative."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= LARGEST_AMOUNT:
        raise SpecError("--add-usd", text, "an amount in USD such as 2.50")
    return value
