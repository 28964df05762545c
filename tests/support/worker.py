"""A worker's runtime inside the test process, with whatever encoders and pool the test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scheduler.generation import advance
from scheduler.memory import Memory
from services.core.campaign import Campaign
from services.core.ids import CampaignId, EpisodeId
from services.core.protocol.ports import Encoders, ModelPool
from services.pool.retry import RetryPolicy
from services.storage import batch, campaigns, leadership
from services.storage.engine import Database
from services.storage.records import CampaignRecord
from services.telemetry import logs
from tests.support.campaigns import submit
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.writer import Apply, Writer


@dataclass
class Bench:
    """A worker's runtime and one campaign with an open generation."""

    runtime: Runtime
    database: Database
    campaign_id: CampaignId
    episodes: list[EpisodeId]

    def run(self, place: int = 0) -> None:
        run(self.runtime, self.episodes[place])

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.database.transaction() as conn:
            return [tuple(row) for row in conn.exec_driver_sql(statement).all()]

    def episode(self, place: int = 0) -> tuple[Any, ...]:
        statement = f"SELECT state, reward, attempt, failure_kind FROM episode WHERE id = {self.episodes[place]}"
        return self.query(statement)[0]

    def campaign(self) -> CampaignRecord:
        with self.database.transaction() as conn:
            return campaigns.by_id(conn, self.campaign_id)


def open_campaign(database: Database, campaign: Campaign) -> CampaignId:
    """Submit a campaign and open its first generation."""
    campaign_id = submit(database, campaign)
    with database.transaction() as conn:
        advance(conn, leadership.take_office(conn), campaign_id, Memory())
    return campaign_id


@contextmanager
def bench_of(
    database: Database,
    campaign: Campaign,
    encoders: Encoders,
    make_pool: Callable[[Campaign], ModelPool],
    *,
    writing: Database | None = None,
    apply: Apply = batch.apply,
    lease_seconds: float = 60.0,
    heartbeat_seconds: float = 15.0,
) -> Iterator[Bench]:
    """Open the campaign and build a runtime whose heartbeat is not started."""
    campaign_id = open_campaign(database, campaign)
    log = logs.logger("test")
    held = HeldLeases(database, lease_seconds, heartbeat_seconds, log)
    with Writer(writing or database, lease_seconds, log, apply=apply) as writer:
        runtime = Runtime(database, writer, held, encoders, make_pool, "worker", lease_seconds, log)
        runtime.retries = RetryPolicy(tries=2, base_seconds=0.01, cap_seconds=0.01)
        bench = Bench(runtime, database, campaign_id, [])
        bench.episodes = [EpisodeId(row[0]) for row in bench.query("SELECT id FROM episode ORDER BY id")]
        yield bench
