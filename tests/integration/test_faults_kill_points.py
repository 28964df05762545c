"""The scheduler's process is killed between any two operations of its turns; the next one comes to the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import campaigns
from services.storage.engine import Database
from tests.support.auditing import assert_clean
from tests.support.fault_doubles import RealBelt, submit, tell, tiny_campaign
from tests.support.faults import FULL, Stage
from tests.support.forked import ForkedScheduler
from tests.support.outcomes import Outcome, outcome_of, same_outcome
from tests.support.waiting import wait_for
from tests.support.wire import Fault, Moment, PostgresRelay, Relay, StreamRelay

POINTS = 50 if FULL else 12


@dataclass
class Working:
    """A worker that lives through everything, in a thread of the test."""

    stage: Stage
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Working:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            if (episode := self.stage.belt.take()) is None:
                self._stop.wait(0.005)
            else:
                self.stage.run(episode)


@dataclass
class Theatre:
    """A worker, and schedulers whose way to database and broker leads through relays."""

    database: Database
    database_url: str
    broker_url: str
    postgres: PostgresRelay
    redis: StreamRelay

    def start(self) -> ForkedScheduler:
        return ForkedScheduler(self.postgres.url(self.database_url), self.redis.url(self.broker_url))

    def state(self, campaign: CampaignId) -> CampaignState:
        with self.database.transaction() as conn:
            return campaigns.by_id(conn, campaign).state

    def is_done(self, campaign: CampaignId) -> bool:
        return self.state(campaign) is CampaignState.COMPLETED

    def play(self, name: str) -> CampaignId:
        """Run a campaign with one scheduler."""
        campaign = submit(self.database, tiny_campaign(name=name))
        with self.start():
            wait_for(lambda: self.is_done(campaign), seconds=30, what="an undisturbed campaign", pause=0.01)
        return campaign

    def kill_at(self, relay: Relay, at: int, moment: Moment) -> tuple[CampaignId, bool]:
        """Run a campaign whose first scheduler is killed at an operation; return whether that happened."""
        campaign = submit(self.database, tiny_campaign(name=f"{type(relay).__name__} {at} {moment.name}"))
        pid: list[int] = []
        known = threading.Event()

        def strike() -> None:
            assert known.wait(10)
            os.kill(pid[0], signal.SIGKILL)

        relay.arm(Fault(at, moment, strike))
        with self.start() as first:
            pid.append(int(first.process.pid or 0))
            known.set()
            wait_for(lambda: not first.alive or self.is_done(campaign), seconds=30, what="the kill", pause=0.01)
        relay.arm(None)
        with self.start():
            wait_for(lambda: self.is_done(campaign), seconds=30, what="the next scheduler to finish", pause=0.01)
        return campaign, first.process.exitcode == -signal.SIGKILL and relay.struck is None


@pytest.fixture
def theatre(database_url: str, database: Database, broker_url: str) -> Iterator[Theatre]:
    if not broker_url.startswith("redis"):
        pytest.skip("the relay reads Redis's address only")
    belt = RealBelt(broker_url, broker_url)
    stage = Stage(database_url, database, belt=belt)
    with PostgresRelay.before(database_url) as postgres, StreamRelay.before(broker_url) as redis, Working(stage):
        yield Theatre(database, database_url, broker_url, postgres, redis)
    stage.close()
    belt.close()


def points(operations: int, sendings: int) -> list[tuple[bool, int, Moment]]:
    """Return where to kill: a sixth of the points around the broker, the others spread over the database."""
    around = [(True, 1 + place % sendings, list(Moment)[place % 2]) for place in range(max(2, POINTS // 6))]
    left = POINTS - len(around)
    return around + [
        (False, 1 + place * (operations - 1) // (left - 1), list(Moment)[place % 2]) for place in range(left)
    ]


@pytest.mark.timeout(1800 if FULL else 120)
def test_a_scheduler_killed_between_any_two_operations_of_a_turn_changes_nothing(theatre: Theatre) -> None:
    theatre.play("warm")
    theatre.postgres.arm(None)
    theatre.redis.arm(None)
    reference: Outcome = outcome_of(theatre.database, theatre.play("calm"))
    operations, sendings = theatre.postgres.count, theatre.redis.count
    failures: list[str] = []
    killed = 0
    for at_broker, at, moment in points(operations, sendings):
        relay = theatre.redis if at_broker else theatre.postgres
        campaign, hit = theatre.kill_at(relay, at, moment)
        killed += hit
        try:
            same_outcome(theatre.database, campaign, reference)
        except AssertionError as error:
            failures.append(f"{at} {moment}: {str(error)[:300]}")
    tell(f"{operations} operations on the database, {sendings} on the broker, killed at {killed} of {POINTS} points")
    assert not failures, "\n".join(failures)
    assert_clean(theatre.database)
    assert killed >= POINTS * 3 // 4
