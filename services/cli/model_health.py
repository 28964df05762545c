"""``pool status`` and the models of ``campaign show``: how they did lately, and which of them are left alone."""

from __future__ import annotations

from collections.abc import Sequence

from services.cli import render
from services.core.limits.breaker import BreakerState
from services.storage import limits
from services.storage.engine import Database
from services.storage.limits import Health


def show(database: Database, newest: int, *, as_json: bool) -> None:
    with database.transaction() as conn:
        found = limits.health(conn, newest=newest)
    if as_json:
        render.show_json(found)
    else:
        show_table(found)


def show_table(found: Sequence[Health], indent: int = 0) -> None:
    columns = ("model", "breaker", "calls", "under way", "errors", "commonest error", "median s")
    render.show_table(columns, [row(each) for each in found], indent=indent)


def row(each: Health) -> tuple[object, ...]:
    rate = render.share(each.errors / each.calls) if each.calls else None
    median = None if each.median_seconds is None else f"{each.median_seconds:.2f}"
    return (each.label, breaker(each), each.calls, each.under_way, rate, each.commonest, median)


def breaker(each: Health) -> str:
    """Return the state, and for a model that is left alone until when."""
    if each.breaker is BreakerState.OPEN and each.open_until is not None:
        return f"open until {render.moment(each.open_until)}"
    return each.breaker.value
