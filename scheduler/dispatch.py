"""Sending pending episodes to the broker, after the commit that made them, a bounded window per campaign."""

from __future__ import annotations

from services.queue.publish import Delivery, Publisher
from services.storage import outbox
from services.storage.engine import Database


def dispatch(database: Database, publisher: Publisher, *, window: int, republish_seconds: float) -> int:
    """Publish what is due and mark it; return how many messages were sent.

    A crash between the two commits costs duplicate messages, which the claim makes harmless. No transaction is open
    while the broker is spoken to.

    Raises:
        BrokerUnavailable: nothing is marked, everything is tried again.
    """
    with database.transaction() as conn:
        rows = outbox.pending(conn, window=window, republish_seconds=republish_seconds)
    publisher.send([Delivery(row.episode_id, row.purpose, row.label) for row in rows])
    if rows:
        with database.transaction() as conn:
            outbox.mark_published(conn, rows)
    return len(rows)
