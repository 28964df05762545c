"""The scheduler's life: stand by until the office is free, lead, and stand by again whatever went wrong."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from scheduler.office import Office, Pace
from services.core.errors import DatabaseUnavailable, LeadershipLost
from services.queue.publish import Publisher
from services.storage import leadership
from services.storage.engine import Database
from services.storage.leadership import LeaderLock
from services.telemetry.logs import Log

__all__ = ["Pace", "Scheduler"]

STANDBY_SECONDS = 1.0


def name_of_this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass
class Scheduler:
    """One scheduler process; any number may run, one leads."""

    database: Database
    publisher: Publisher
    pace: Pace
    log: Log
    stop: threading.Event = field(default_factory=threading.Event)
    name: str = field(default_factory=name_of_this_process)

    def run(self) -> None:
        """Lead whenever possible, until ``stop`` is set."""
        while not self.stop.is_set():
            try:
                with self.database.leadership() as lock:
                    if lock.try_acquire() or self._take_over(lock):
                        self._lead(lock)
            except LeadershipLost as error:
                self.log.warning("leadership lost", reason=str(error))
            except DatabaseUnavailable as error:
                self.log.warning("database unavailable, trying again", reason=str(error))
            except Exception as error:  # the lock is given back, and another scheduler may do better
                self.log.error("the scheduler failed and stands by", exc_info=error)
            self.stop.wait(STANDBY_SECONDS)

    def _take_over(self, lock: LeaderLock) -> bool:
        """End the sessions of a leader that is frozen; return whether the office is this scheduler's now."""
        with self.database.transaction() as conn:
            ended = leadership.end_frozen(conn, leadership.TAKEOVER_SECONDS)
        if not ended:
            return False
        self.log.warning("the leader showed no sign of life and was put out of office", sessions=ended)
        return lock.try_acquire()

    def _lead(self, lock: LeaderLock) -> None:
        with self.database.transaction() as conn:
            epoch = leadership.take_office(conn, self.name)
        self.log.info("leading", epoch=epoch)
        try:
            Office(self.database, self.publisher, self.pace, self.log, epoch, self.stop).lead(lock)
        except DatabaseUnavailable:
            self._require_office(epoch)
            raise
        self._require_office(epoch)
        self.log.info("leaving office", epoch=epoch)

    def _require_office(self, epoch: int) -> None:
        """Find out whether the sessions were cut because another scheduler took office; raise LeadershipLost then."""
        with suppress(DatabaseUnavailable), self.database.transaction() as conn:
            leadership.require(conn, epoch)
