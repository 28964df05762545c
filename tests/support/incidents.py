"""A small campaign that things happen to, and what must hold at its end whatever happened."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.loop import Scheduler
from services.core.campaign import Campaign, EvaluationSpec, ProtocolSpec, SearchSpec, ValidationSpec
from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.core.states import CampaignState
from services.queue.app import make_app
from services.queue.publish import queue_lengths
from services.storage.engine import Database
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign
from tests.support.crew import Crew
from tests.support.scheduling import record, scheduling
from tests.support.waiting import wait_for

FULL = bool(os.environ.get("TRINITY_TEST_FULL"))
slow = pytest.mark.skipif(not FULL, reason="takes long and changes seldom; TRINITY_TEST_FULL=1 runs it")


@dataclass(frozen=True)
class Stage:
    """One campaign under way on a database of its own."""

    database: Database
    crew: Crew
    broker_url: str
    campaign_id: CampaignId

    def ask(self, statement: str) -> Any:
        with self.database.transaction() as conn:
            return conn.exec_driver_sql(statement).scalar_one()

    def count(self, condition: str) -> int:
        return int(self.ask(f"select count(*) from {condition}"))

    def until(self, condition: str, at_least: int, seconds: float = 120.0) -> None:
        wait_for(lambda: self.count(condition) >= at_least, seconds=seconds, what=f"{at_least} {condition}")

    def situation(self) -> str:
        """Return what stands where, for the report of a failure."""
        with self.database.transaction() as conn:
            states = [tuple(row) for row in conn.exec_driver_sql("select state, count(*) from episode group by 1")]
        app = make_app(self.broker_url)
        waiting = queue_lengths(app)
        app.close()
        return f"episodes {states}, messages {waiting}, alive {[member.lives() for member in self.crew.members]}"

    def completed(self) -> bool:
        self.crew.revive()
        return record(self.database, self.campaign_id).state is CampaignState.COMPLETED

    def completes(self, seconds: float = 150.0, lost: int = 0) -> None:
        """Wait for the end; at most ``lost`` attempts were lost on the way, and every episode was scored once.

        Workers that end are started again: Celery takes some faults of its broker for the end.
        """
        try:
            wait_for(self.completed, seconds=seconds, what="the end of the campaign", pause=0.2)
        except AssertionError as error:
            error.add_note(self.situation())
            raise
        assert self.count("attempt where outcome in ('failed')") == 0
        assert self.count("attempt where outcome = 'lost'") <= lost
        assert self.count("episode where state <> 'scored'") == 0
        assert self.count("attempt where outcome = 'done'") == self.count("episode")
        assert_clean(self.database)


def campaign(**changes: Any) -> Campaign:
    """One turn, one call an episode: 12 training episodes and 2 + 3 measured ones."""
    brief = {
        "protocol": ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64),
        "search": SearchSpec(population=4, replicates=3, generations=1, sigma0=0.1),
        "validation": ValidationSpec(every=1, problems=2),
        "evaluation": EvaluationSpec(problems=3, baselines=()),
    }
    return small_campaign(**{**brief, **changes})


def scheduling_quickly(database_url: str, broker_url: str) -> AbstractContextManager[Scheduler]:
    """Run a scheduler that misses a message within seconds."""
    return scheduling(database_url, broker_url, republish_seconds=2.0, grace_seconds=2.0)
