"""Sending episodes to the broker: a bounded window, shared by weight, marked before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.core.fairness import Load, allotments
from services.queue.publish import BrokerUnavailable, Delivery, Publisher
from services.storage import leadership, outbox
from services.storage.engine import Database
from services.storage.records import Publishable

# Messages that workers should have while the rest of a round is being sent.
FIRST = 16
NEVER_SECONDS = 1e8


@dataclass(frozen=True)
class Round:
    """What one look at the outbox found and did.

    Attributes:
        sent: messages sent, those included that were sent again.
        before: episodes at the broker or running before it.
        after: the same after it.
        queued: episodes at the broker after it.
        backlog: whether more is ready than could be sent.
    """

    sent: int
    before: int
    after: int
    queued: int
    backlog: bool


def dispatch(database: Database, publisher: Publisher, epoch: int, *, window: int, republish_seconds: float) -> Round:
    """Send what may be sent now. No transaction is open while the broker is spoken to.

    Raises:
        BrokerUnavailable: everything is due again at once.
        LeadershipLost: another scheduler took office.
    """
    with database.statement() as conn:
        waiting = outbox.waiting(conn, window=window, republish_seconds=republish_seconds)
    loads = {each.campaign_id: Load(each.weight, each.queued + each.running, each.ready) for each in waiting}
    counts = allotments(window, loads)
    again = any(each.overdue for each in waiting) and are_lost(publisher, waiting)
    chosen = {
        each.campaign_id: counts[each.campaign_id]
        for each in waiting
        if (again and each.overdue) or counts[each.campaign_id]
    }
    rows: list[Publishable] = []
    if chosen:
        with database.transaction() as conn:
            leadership.require(conn, epoch)
            age = republish_seconds if again else NEVER_SECONDS
            rows = outbox.take(conn, chosen, window=window, republish_seconds=age)
        send(database, publisher, epoch, rows)
    fresh, before = sum(chosen.values()), sum(load.in_flight for load in loads.values())
    return Round(
        sent=len(rows),
        before=before,
        after=before + fresh,
        queued=sum(each.queued for each in waiting) + fresh,
        backlog=sum(load.ready for load in loads.values()) > fresh,
    )


def are_lost(publisher: Publisher, waiting: Sequence[outbox.Waiting]) -> bool:
    """Whether old messages may be lost: not while the broker holds enough for all that is queued.

    Otherwise a night without workers would pile up messages that say the same.
    """
    return publisher.waiting() < sum(each.queued for each in waiting)


def send(database: Database, publisher: Publisher, epoch: int, rows: Sequence[Publishable]) -> None:
    """Send messages whose rows are marked, the first few at once; put back the rows that the broker does not take."""
    unsent = list(rows)
    try:
        while unsent:
            part = unsent[: FIRST if len(unsent) == len(rows) else len(unsent)]
            publisher.send([Delivery(row.episode_id, row.purpose, row.label) for row in part])
            del unsent[: len(part)]
    except BrokerUnavailable:
        with database.transaction() as conn:
            leadership.require(conn, epoch)
            outbox.put_back(conn, unsent)
        raise
