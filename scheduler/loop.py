"""The scheduler's life: wait for office, then look at the database whenever it may have changed.

A notification wakes it at once; the poll is the guarantee. It keeps nothing that it could not forget.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from scheduler.dispatch import dispatch
from scheduler.handlers import by_campaign, handle, postpone
from scheduler.searches import Searches
from services.core.errors import BudgetExhausted, DatabaseUnavailable, LeadershipLost
from services.queue.publish import BrokerUnavailable, Publisher
from services.storage import campaign_states, campaigns, events, leadership, leases
from services.storage.engine import Database
from services.storage.leadership import LeaderLock
from services.telemetry.logs import Log

SWEEP_SECONDS = 1.0
STANDBY_SECONDS = 1.0


@dataclass(frozen=True)
class Pace:
    """How often and how much, in seconds and messages; see the settings of the same names."""

    poll_seconds: float
    republish_seconds: float
    window: int


@dataclass
class Scheduler:
    """One scheduler process; any number may run, one leads."""

    database: Database
    publisher: Publisher
    pace: Pace
    log: Log
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Lead whenever possible, until ``stop`` is set."""
        while not self.stop.is_set():
            try:
                with self.database.leadership() as lock:
                    if lock.try_acquire():
                        self._lead(lock)
            except LeadershipLost as error:
                self.log.warning("leadership lost", reason=str(error))
            except DatabaseUnavailable as error:
                self.log.warning("database unavailable, trying again", reason=str(error))
            self.stop.wait(STANDBY_SECONDS)

    def _lead(self, lock: LeaderLock) -> None:
        with self.database.transaction() as conn:
            epoch = leadership.take_office(conn)
        self.log.info("leading", epoch=epoch)
        searches = Searches()
        swept = 0.0
        with self.database.listen() as listener:
            while not self.stop.is_set() and lock.held():
                self._handle_events(epoch, searches)
                if time.monotonic() - swept >= SWEEP_SECONDS:
                    self._sweep(epoch)
                    swept = time.monotonic()
                self._dispatch()
                listener.wait(self.pace.poll_seconds)
        self.log.info("leaving office", epoch=epoch)

    def _handle_events(self, epoch: int, searches: Searches) -> None:
        with self.database.transaction() as conn:
            unprocessed = events.unprocessed(conn)
        for campaign_id, group in by_campaign(unprocessed):
            try:
                for step in handle(self.database, epoch, campaign_id, group, searches):
                    self.log.info(step, campaign=campaign_id)
            except (LeadershipLost, DatabaseUnavailable):
                raise
            except Exception as error:  # the boundary that keeps one campaign's trouble from the others
                searches.forget(campaign_id)
                given_up = postpone(self.database, epoch, campaign_id, group, error)
                self.log.error("an event failed", campaign=campaign_id, given_up=given_up, exc_info=error)

    def _sweep(self, epoch: int) -> None:
        with self.database.transaction() as conn:
            leadership.require(conn, epoch)
            if expired := leases.expire(conn, epoch=epoch):
                self.log.warning("leases expired", episodes=expired)
        with self.database.transaction() as conn:
            leadership.require(conn, epoch)
            for campaign_id in campaigns.overdue(conn):
                record = campaigns.by_id(conn, campaign_id)
                limit = int(record.budget.wall_clock_seconds or 0)
                elapsed = int(record.running_seconds)
                error = BudgetExhausted("wall clock seconds", limit, elapsed, 0, 0)
                campaign_states.exhaust(conn, campaign_id, error)

    def _dispatch(self) -> None:
        try:
            dispatch(
                self.database, self.publisher, window=self.pace.window, republish_seconds=self.pace.republish_seconds
            )
        except BrokerUnavailable as error:
            self.log.warning("broker unavailable, episodes wait", reason=str(error))
            self.stop.wait(STANDBY_SECONDS)
