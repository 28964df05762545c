"""``campaign pause``, ``resume``, ``cancel`` and ``budget``: one transaction each, and a word about what it did."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from services.cli import render
from services.core.errors import SpecError
from services.storage import campaign_states, campaigns
from services.storage.engine import Database


def pause(database: Database, name: str, reason: str) -> None:
    with database.transaction() as conn:
        changed = campaign_states.pause(conn, campaigns.by_name(conn, name).id, reason)
    tell(name, "paused", changed)


def resume(database: Database, name: str) -> None:
    with database.transaction() as conn:
        changed = campaign_states.resume(conn, campaigns.by_name(conn, name).id)
    tell(name, "running", changed)


def cancel(database: Database, name: str, reason: str) -> None:
    with database.transaction() as conn:
        changed = campaign_states.cancel(conn, campaigns.by_name(conn, name).id, reason)
    tell(name, "cancelled", changed)


def tell(name: str, state: str, changed: bool) -> None:
    render.show(f"campaign {name} is {state}" + ("" if changed else " already"))


def add_budget(database: Database, name: str, *, episodes: int, tokens: int, usd: Decimal, hours: float) -> None:
    """Raise limits; SpecError when nothing is added."""
    if not (episodes or tokens or usd or hours):
        raise SpecError("campaign budget", "nothing to add", "at least one of --add-episodes, -tokens, -usd, -hours")
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        campaigns.add_budget(
            conn, record.id, episodes=episodes, tokens=tokens, usd=usd, wall_clock_seconds=hours * 3600
        )
        limits = campaigns.by_id(conn, record.id).budget
    render.show(f"campaign {name}: {render.count(limits.episodes)} episodes, {render.count(limits.tokens)} tokens, "
                f"{render.usd(limits.usd)}")  # fmt: skip


def amount(text: str) -> Decimal:
    """Return an amount of USD; SpecError unless it is a plain number that is not negative."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        raise SpecError("--add-usd", text, "an amount in USD such as 2.50")
    return value
