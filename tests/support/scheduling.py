"""A scheduler in a thread of the test, and waiting for what it does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.loop import Pace, Scheduler
from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.queue.app import make_app
from services.queue.publish import Publisher
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import CampaignRecord
from services.telemetry import logs
from tests.support.waiting import wait_for

PACE = Pace(poll_seconds=0.05, republish_seconds=60.0, window=64, grace_seconds=0.0)


@contextmanager
def scheduling(database_url: str, broker_url: str, pace: Pace = PACE) -> Iterator[Scheduler]:
    """Run a scheduler until the end of the block."""
    database = Database(database_url, application_name="scheduler under test")
    scheduler = Scheduler(database, Publisher(make_app(broker_url)), pace, logs.logger("test"))
    thread = threading.Thread(target=scheduler.run, daemon=True)
    thread.start()
    try:
        yield scheduler
    finally:
        scheduler.stop.set()
        thread.join(timeout=10)
        assert not thread.is_alive()
        scheduler.publisher.close()
        database.close()


def record(database: Database, campaign_id: CampaignId) -> CampaignRecord:
    with database.transaction() as conn:
        return campaigns.by_id(conn, campaign_id)


def wait_for_state(
    database: Database, campaign_id: CampaignId, state: CampaignState, seconds: float = 30.0
) -> CampaignRecord:
    wait_for(
        lambda: record(database, campaign_id).state is state,
        seconds=seconds,
        what=f"campaign {campaign_id} to be {state}, it is {record(database, campaign_id).state}",
    )
    return record(database, campaign_id)
