"""Schedulers that run in threads of the test, and waiting for what they do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

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
def scheduling(database_url: str, broker_url: str, name: str = "scheduler", **pace: float) -> Iterator[Scheduler]:
    """Run a scheduler; ``pace`` changes fields of PACE."""
    database = Database(database_url, application_name=name)
    publisher = Publisher(make_app(broker_url))
    scheduler = Scheduler(database, publisher, replace(PACE, **pace), logs.logger("test"), name=name)  # type: ignore[arg-type]
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


def wait_for_state(database: Database, campaign_id: CampaignId, state: CampaignState) -> CampaignRecord:
    wait_for(
        lambda: record(database, campaign_id).state is state, seconds=30, what=f"campaign {campaign_id} to be {state}"
    )
    return record(database, campaign_id)
