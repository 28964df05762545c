"""A worker with many episode threads and a scheduler, while somebody watches the campaign's totals all the time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, cast

from scheduler.loop import Scheduler
from services.core.campaign import Campaign
from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import CampaignRecord
from tests.support.faults import FINAL, PACE, Stage
from tests.support.waiting import wait_for

RESTING = FINAL | {CampaignState.PAUSED, CampaignState.BUDGET_EXHAUSTED}


@dataclass
class Watch:
    """Looks at one campaign's totals as often as it can and notes every limit that is passed.

    Attributes:
        most: the largest number of calls seen under way.
    """

    stage: Stage
    spec: Campaign
    campaign: CampaignId
    seen: int = 0
    broken: list[str] = field(default_factory=list)

    def look(self) -> None:
        billed = self.stage.pool.cost(self.spec)
        record = record_of(self.stage.look, self.campaign)
        budget, spend = record.budget, record.spend
        committed = spend.usd_charged + spend.usd_reserved
        limits: list[tuple[str, Any, Any]] = [
            ("episodes", spend.episodes_reserved, budget.episodes),
            ("calls", spend.calls_started, budget.calls),
            ("tokens", spend.tokens_charged + spend.tokens_reserved, budget.tokens),
            ("USD", committed, budget.usd),
            ("billed beyond what is committed", billed, committed),
        ]
        self.seen += 1
        self.broken += [f"{what}: {got} of {limit}" for what, got, limit in limits if limit is not None and got > limit]


@dataclass
class Crowd:
    """``threads`` episodes at a time."""

    stage: Stage
    threads: int = 50
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Crowd:
        self.scheduler = Scheduler(self.stage.plain, self.stage.belt, PACE, cast(Any, self.stage.notes))
        self._running = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        self._running.append(threading.Thread(target=self.scheduler.run, daemon=True))
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.scheduler.stop.set()
        for thread in self._running:
            thread.join(20)

    def play(self, spec: Campaign, campaign: CampaignId, seconds: float = 60.0) -> Watch:
        """Watch the campaign until it rests and nothing of it is under way."""
        watch = Watch(self.stage, spec, campaign)
        deadline = time.monotonic() + seconds
        while record_of(self.stage.look, campaign).state not in RESTING:
            watch.look()
            if time.monotonic() > deadline:
                raise AssertionError(f"still runs after {seconds:g} s: {self.stage.notes.lines[-5:]}")
        wait_for(lambda: self._is_quiet(watch), seconds=20, what="calls under way to be settled")
        watch.look()
        return watch

    def _is_quiet(self, watch: Watch) -> bool:
        watch.look()
        spend = record_of(self.stage.look, watch.campaign).spend
        return spend.usd_reserved == 0 and spend.tokens_reserved == 0

    def _work(self) -> None:
        while not self._stop.is_set():
            if (episode := self.stage.belt.take()) is None:
                self._stop.wait(0.01)
            else:
                self.stage.run(episode)


def record_of(database: Database, campaign: CampaignId) -> CampaignRecord:
    with database.transaction() as conn:
        return campaigns.by_id(conn, campaign)
