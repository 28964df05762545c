"""A campaign driven step by step in one thread by the real scheduler and the real worker, so that faults are counted.

The scheduler's waiting for notifications is where the worker gets its turn. What depends on time alone (leases,
retries, messages that count as lost) is made due when nobody has anything to do, so that no test waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

import scheduler.loop
import scheduler.office
import scheduler.sweep
import worker.outages
from scheduler.loop import Pace, Scheduler
from services.core.ids import CampaignId, EpisodeId
from services.core.states import CampaignState
from services.pool.retry import RetryPolicy
from services.queue.messages import EpisodeMessage
from services.storage import campaign_states, campaigns
from services.storage.engine import Database
from services.storage.listening import CHANNEL, Listener
from tests.support.fault_doubles import Belt, Notes, StubEncoders, StubPool
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.tasks import register
from worker.writer import Writer

FULL = bool(os.environ.get("TRINITY_TEST_FULL"))
PACE = Pace(poll_seconds=0.01, republish_seconds=60.0, window=64, grace_seconds=0.0)
LEASE_SECONDS = 60.0
FINAL = {CampaignState.COMPLETED, CampaignState.FAILED, CampaignState.CANCELLED}

# Whatever waits for nothing but the clock. Nobody runs anything when this is done.
PASS_TIME = (
    """update episode set available_at = least(available_at, now()), published_at = published_at - interval '1 day',
        lease_expires_at = lease_expires_at - interval '1 day' where state in ('pending', 'queued', 'running')""",
    "update meter set open_until = least(open_until, now()), probe_until = null where open_until is not null",
    "update event set next_attempt_at = least(next_attempt_at, now()) where processed_at is null",
)


def stub_runtime(
    database: Database, writing: Database, pool: StubPool, log: Any, encoders: Any = None, name: str = "worker"
) -> Runtime:
    """Return a worker's runtime; its writer has to be started, its heartbeat need not be."""
    return Runtime(
        database=database,
        writer=Writer(writing, LEASE_SECONDS, log),
        held=HeldLeases(database, LEASE_SECONDS, 15.0, log),
        encoders=encoders or StubEncoders(),
        make_pool=lambda campaign: pool,
        owner=name,
        lease_seconds=LEASE_SECONDS,
        log=log,
        retries=RetryPolicy(tries=2, base_seconds=0.0, cap_seconds=0.0),
    )


@dataclass
class Driven(Listener):
    """A listener whose waiting is the worker's turn."""

    real: Listener
    turn: Callable[[], bool]

    def wait(self, timeout_seconds: float) -> bool:
        busy = self.turn()
        return self.real.wait(0.0 if busy else timeout_seconds)

    def close(self) -> None:
        self.real.close()


class DrivenDatabase(Database):
    """The scheduler's database, whose listener drives the worker."""

    turn: Callable[[], bool]

    def listen(self, channel: str = CHANNEL) -> Listener:
        return Driven(super().listen(channel), lambda: self.turn())


@dataclass
class Stage:
    """Scheduler, worker and belt in one thread; ``url`` may lead through a relay, ``look`` never does.

    Attributes:
        escaped: exceptions that left the task; Celery would log them and go on.
        fallen: exceptions that ended the scheduler; the supervisor would start it again.
        hurried: how often time had to pass because nobody had anything to do.
        stops: why the campaign stopped, each time; it is resumed at most ``resumes`` times.
        before_resume: called before that, with the campaign.
        between: called after each of the worker's turns.
    """

    url: str
    look: Database
    pool: StubPool = field(default_factory=StubPool)
    belt: Any = field(default_factory=Belt)
    encoders: Any = None
    resumes: int = 0
    seconds: float = 30.0
    escaped: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    hurried: int = 0
    stops: list[str] = field(default_factory=list)
    before_resume: Callable[[CampaignId], None] = lambda campaign: None
    between: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.leading = DrivenDatabase(self.url, application_name="trinity scheduler")
        self.plain = Database(self.url, application_name="trinity scheduler")
        self.working = Database(self.url, application_name="trinity worker")
        self.writing = Database(self.url, application_name="trinity worker writer", pool_size=1)
        self.runtime = stub_runtime(self.working, self.writing, self.pool, self.notes, self.encoders)
        self.runtime.writer.start()
        register(cast(Any, self), partial(run, self.runtime), self.runtime.log)

    def play(self, campaign: CampaignId) -> CampaignState:
        """Let the campaign run until it has ended or is paused for good; return its state."""
        self.escaped.clear()
        self.fallen.clear()
        self.notes.lines.clear()
        self.notes.errors.clear()
        self.stops.clear()
        self.hurried = 0
        deadline = time.monotonic() + self.seconds
        scheduler_ = Scheduler(self.leading, self.belt, PACE, cast(Any, self.notes))
        self.leading.turn = partial(self._turn, scheduler_, campaign, deadline)
        while not scheduler_.stop.is_set():
            try:
                scheduler_.run()
            except Exception as error:  # noqa: BLE001 - it is what the test asks about
                self.fallen.append(f"{type(error).__name__}: {error}")
            if time.monotonic() > deadline:
                break
        state = self._state(campaign)
        if state in (CampaignState.RUNNING, CampaignState.SUBMITTED):
            raise AssertionError(f"not done after {self.seconds:g} s; the last it said: {self.notes.lines[-6:]}")
        return state

    def close(self) -> None:
        self.runtime.writer.stop()
        for each in (self.leading, self.plain, self.working, self.writing):
            each.close()

    def task(self, function: Callable[..., None], **_: object) -> None:
        """Take the task that the worker would give to Celery."""
        self._task = function

    def _turn(self, scheduler_: Scheduler, campaign: CampaignId, deadline: float) -> bool:
        ran = 0
        while (episode := self.belt.take()) is not None:
            ran += 1
            self.run(episode)
        self.between()
        state = self._state(campaign)
        if state in FINAL or time.monotonic() > deadline or not self._going_on(state, campaign):
            scheduler_.stop.set()
        elif not ran:
            self.hurried += 1
            pass_time(self.look)
        return True

    def run(self, episode: int) -> None:
        try:
            self._task(**EpisodeMessage(EpisodeId(episode)).to_kwargs())
        except Exception as error:  # noqa: BLE001 - as Celery would
            self.escaped.append(f"{type(error).__name__}: {error}")

    def _going_on(self, state: CampaignState, campaign: CampaignId) -> bool:
        if state in (CampaignState.RUNNING, CampaignState.SUBMITTED):
            return True
        with self.look.transaction() as conn:
            self.stops.append(campaigns.by_id(conn, campaign).stop_reason or "")
        if len(self.stops) > self.resumes:
            return False
        self.before_resume(campaign)
        with self.look.transaction() as conn:
            campaign_states.resume(conn, campaign)
        return True

    def _state(self, campaign: CampaignId) -> CampaignState:
        with self.look.transaction() as conn:
            return campaigns.by_id(conn, campaign).state


def pass_time(database: Database) -> None:
    """Make everything due that waits for the clock alone."""
    with database.transaction() as conn:
        for statement in PASS_TIME:
            conn.exec_driver_sql(statement)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses: every round of the scheduler sweeps, and what failed is repeated at once."""
    monkeypatch.setattr(scheduler.sweep, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(scheduler.loop, "STANDBY_SECONDS", 0.01)
    monkeypatch.setattr(scheduler.office, "BROKER_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(worker.outages, "FIRST_PAUSE_SECONDS", 0.01)


def spread(count: int, wanted: int) -> list[int]:
    """Return 1 .. count, or ``wanted`` of them evenly spread when the tests run in their short form."""
    if FULL or wanted >= count:
        return list(range(1, count + 1))
    return sorted({1 + place * (count - 1) // (wanted - 1) for place in range(wanted)})
