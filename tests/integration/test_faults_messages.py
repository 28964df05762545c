"""Messages that come twice and out of order, and an episode that kills its worker, with real worker processes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from scheduler.loop import Pace, Scheduler
from services.core.campaign import Campaign, EvaluationSpec, SearchSpec, ValidationSpec
from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.queue.app import make_app
from services.queue.publish import Delivery, Publisher
from services.storage import campaign_states
from services.storage.engine import Database
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign
from tests.support.crowd import RESTING, record_of
from tests.support.fault_doubles import Notes, submit, tell
from tests.support.outcomes import differences, irregularities, outcome_of, rows
from tests.support.stub_process import StubWorker
from tests.support.waiting import wait_for

# Every message is also sent again after a second, whether or not it was lost.
PACE = Pace(poll_seconds=0.1, republish_seconds=1.0, window=24, grace_seconds=0.0)
QUICK = {"TRINITY_LEASE_SECONDS": "4", "TRINITY_HEARTBEAT_SECONDS": "1"}


@dataclass
class Stuttering:
    """A publisher that sends everything twice, in any order."""

    publisher: Publisher
    order: random.Random
    sent: int = 0

    def send(self, deliveries: Sequence[Delivery]) -> None:
        twice = [*deliveries, *deliveries]
        self.order.shuffle(twice)
        self.sent += len(twice)
        self.publisher.send(twice)

    def waiting(self) -> int:
        return self.publisher.waiting()


@contextmanager
def scheduling(database_url: str, publisher: Any) -> Iterator[Scheduler]:
    database = Database(database_url, application_name="trinity scheduler")
    scheduler = Scheduler(database, publisher, PACE, cast(Any, Notes()))
    thread = threading.Thread(target=scheduler.run, daemon=True)
    thread.start()
    yield scheduler
    scheduler.stop.set()
    thread.join(15)
    database.close()


def training_only(name: str) -> Campaign:
    """2 generations of 4 x 4 episodes of two calls, nothing measured."""
    base = small_campaign(name=name)
    return replace(
        base,
        protocol=replace(base.protocol, roles=(Role.WORKER,)),
        search=SearchSpec(population=4, replicates=4, generations=2, sigma0=0.5),
        validation=ValidationSpec(every=1, problems=0),
        evaluation=EvaluationSpec(problems=0),
    )


def rested(database: Database, campaign: CampaignId, seconds: float) -> str:
    wait_for(lambda: record_of(database, campaign).state in RESTING, seconds=seconds, what="the campaign to rest")
    record = record_of(database, campaign)
    return f"{record.state}: {record.stop_reason}"


def count(database: Database, statement: str, campaign: CampaignId) -> int:
    with database.transaction() as conn:
        ((found,),) = rows(conn, statement, campaign)
    return int(found)


DONE = "select count(*) from attempt a join episode e on e.id = a.episode_id where a.outcome = 'done' and "


def test_every_message_twice_and_shuffled_counts_once(
    database: Database, database_url: str, broker_url: str, tmp_path: Path
) -> None:
    publisher = Stuttering(Publisher(make_app(broker_url)), random.Random(7))
    options = ("--slots", "8", "--latency-ms", "1200", "--visibility-timeout", "1")
    with (
        StubWorker(database_url, broker_url, tmp_path / "one.txt", options),
        StubWorker(database_url, broker_url, tmp_path / "two.txt", options),
        scheduling(database_url, publisher),
    ):
        campaign = submit(database, training_only("twice"))
        assert rested(database, campaign, 90).startswith("completed")
    publisher.publisher.close()
    episodes = 4 * 4 * 2
    assert publisher.sent >= 2 * episodes
    assert count(database, DONE + "e.campaign_id = {campaign}", campaign) == episodes
    assert count(database, "select count(*) from llm_call where campaign_id = {campaign}", campaign) == 2 * episodes
    assert count(database, "select count(*) from ledger_entry where campaign_id = {campaign}", campaign) == 6 * episodes
    assert irregularities(database, campaign) == []
    assert_clean(database)
    tell(f"{publisher.sent} messages for {episodes} episodes")


def test_an_episode_that_kills_its_worker_fails_alone_and_stops_the_campaign_with_its_name(
    database: Database, database_url: str, broker_url: str, tmp_path: Path
) -> None:
    publisher = Publisher(make_app(broker_url))
    with scheduling(database_url, publisher):
        with StubWorker(database_url, broker_url, tmp_path / "calm.txt"):
            calm = submit(database, training_only("calm"))
            assert rested(database, calm, 60).startswith("completed")
        reference = outcome_of(database, calm)
        campaign = submit(database, training_only("poisoned"), max_attempts=2)
        poisoned = ("--die-on", "poisoned g0 c1 r2", "--slots", "1")
        with revived(StubWorker(database_url, broker_url, tmp_path / "dies.txt", poisoned, QUICK)):
            reason = rested(database, campaign, 90)
        assert reason.startswith("paused"), reason
        assert "failed for good: " in reason, reason
        assert "(LeaseExpired)" in reason, reason
        failed = "select count(*) from episode where failure_kind = 'LeaseExpired' and campaign_id = {campaign}"
        scored = "select count(*) from episode where state = 'scored' and campaign_id = {campaign}"
        assert (count(database, failed, campaign), count(database, scored, campaign)) == (1, 15)
        with database.transaction() as conn:
            campaign_states.resume(conn, campaign)
        with StubWorker(database_url, broker_url, tmp_path / "healthy.txt"):
            assert rested(database, campaign, 60).startswith("completed")
    publisher.close()
    assert differences(outcome_of(database, campaign), reference) == []
    assert_clean(database)


@contextmanager
def revived(worker: StubWorker) -> Iterator[None]:
    """Start the worker again whenever it has died, as its supervisor would."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            if worker.process is not None and worker.process.poll() is not None:
                worker.start()

    with worker:
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()
