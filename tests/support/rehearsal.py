"""Whole campaigns in one thread: the product's scheduler steps and worker, stand-ins for language model and pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scheduler.generation import advance
from scheduler.memory import Memory
from services.core.ids import CampaignId, EpisodeId
from services.core.states import CampaignState
from services.pool.retry import RetryPolicy
from services.storage import campaigns, events, generations, leadership
from services.storage.engine import Database
from services.storage.records import GenerationRecord
from services.telemetry import logs
from tests.support.storage import query
from tests.support.stub_models import StubEncoders, StubPool
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.writer import Writer

DUE = "select id from episode where campaign_id = {} and state in ('pending', 'queued') order by id"


@dataclass
class Rehearsal:
    """A scheduler and a worker that take turns.

    Attributes:
        memory: what the scheduler remembers; ``amnesia`` replaces it before every step.
    """

    database: Database
    runtime: Runtime
    amnesia: bool = False
    memory: Memory = field(default_factory=Memory)

    def step(self, campaign_id: CampaignId) -> list[str]:
        """Take the steps that are due; return what was done."""
        if self.amnesia:
            self.memory = Memory()
        with self.database.transaction() as conn:
            epoch = leadership.take_office(conn)
            found = [event.id for event in events.unprocessed(conn) if event.campaign_id == campaign_id]
            done = advance(conn, epoch, campaign_id, self.memory)
            events.mark_processed(conn, found)
        return done

    def play(self, campaign_id: CampaignId, most: int = 10_000) -> int:
        """Play what is due; return how many episodes that were."""
        with self.database.transaction() as conn:
            due = [EpisodeId(row[0]) for row in query(conn, DUE.format(campaign_id))][:most]
        for episode_id in due:
            run(self.runtime, episode_id)
        return len(due)

    def run(self, campaign_id: CampaignId) -> int:
        """Run a campaign to its end; return how many episodes were played."""
        played = 0
        while self.state(campaign_id) in (CampaignState.SUBMITTED, CampaignState.RUNNING):
            self.step(campaign_id)
            played += self.play(campaign_id)
        return played

    def state(self, campaign_id: CampaignId) -> CampaignState:
        with self.database.transaction() as conn:
            return campaigns.by_id(conn, campaign_id).state

    def history(self, campaign_id: CampaignId) -> list[GenerationRecord]:
        with self.database.transaction() as conn:
            return generations.history(conn, campaign_id)


@contextmanager
def rehearsal(database: Database, hidden: int = 4, *, amnesia: bool = False) -> Iterator[Rehearsal]:
    """Build scheduler and worker; states have ``hidden`` entries."""
    log = logs.logger("test")
    held = HeldLeases(database, 60.0, 15.0, log)
    with Writer(database, 60.0, log) as writer:
        encoders = StubEncoders(lambda: hidden)
        runtime = Runtime(database, writer, held, encoders, StubPool, "worker", 60.0, log)
        runtime.retries = RetryPolicy(tries=2, base_seconds=0.01, cap_seconds=0.01)
        yield Rehearsal(database, runtime, amnesia)
