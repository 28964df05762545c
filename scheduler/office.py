"""One term of office: a leader looks at the database whenever it may have changed, until it leads no more.

A notification wakes it at once; the poll is the guarantee. It keeps nothing that it could not forget.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from scheduler.dispatch import Round, dispatch
from scheduler.handlers import handle, look, postpone
from scheduler.memory import Memory
from scheduler.searches import Searches
from scheduler.sweep import Sweep
from scheduler.tempo import Tempo
from services.core.errors import DatabaseUnavailable, LeadershipLost
from services.core.ids import CampaignId
from services.queue.publish import BrokerUnavailable, Publisher
from services.storage import turns
from services.storage.engine import Database
from services.storage.events import Due
from services.storage.leadership import LeaderLock
from services.telemetry.logs import Log

# While the broker is away it is tried this often; everything else goes on.
BROKER_RETRY_SECONDS = 1.0
# Longest time that is spent at once on rebuilding a search; in between everything else has its turn.
REPLAY_SECONDS = 0.1


@dataclass(frozen=True)
class Pace:
    """How often and how much, in seconds and messages; see the settings of the same names.

    Attributes:
        poll_seconds: longest wait between two looks.
        republish_seconds: a message that nobody claimed for so long is sent again.
        window: most episodes at the broker or running, all campaigns together.
        grace_seconds: no lease expires for so long after taking office.
    """

    poll_seconds: float
    republish_seconds: float
    window: int
    grace_seconds: float


@dataclass
class Office:
    """What a leader does, and what it remembers while it leads."""

    database: Database
    publisher: Publisher
    pace: Pace
    log: Log
    epoch: int
    stop: threading.Event
    memory: Memory = field(default_factory=lambda: Memory(Searches(REPLAY_SECONDS)))

    def __post_init__(self) -> None:
        self._sweep = Sweep(self.database, self.epoch, self.pace.grace_seconds, self.memory, self.log)
        self._tempo = Tempo(self.pace.poll_seconds)
        self._looked = time.monotonic()
        self._broker_away_until = 0.0
        # What the leader before marked as sent may never have been sent.
        self._send_all_again = True

    def lead(self, lock: LeaderLock) -> None:
        """Lead until ``stop`` is set or the lock is gone.

        Raises:
            LeadershipLost: another scheduler took office.
        """
        with self.database.transaction() as conn:
            running = turns.running(conn)
        for campaign_id in running:
            self._prepare(campaign_id)
        with self.database.listen() as listener:
            next_step = 0.0
            while not self.stop.is_set() and (not self._sweep.is_due() or self._swept(lock)):
                if self._send_all_again or time.monotonic() >= next_step:
                    next_step = time.monotonic() + self._step()
                pause = min(next_step - time.monotonic(), self._sweep.due_in())
                if listener.wait(max(0.0, pause)):
                    next_step = 0.0

    def _swept(self, lock: LeaderLock) -> bool:
        """Sweep if the lock still holds; return whether it does."""
        if not lock.held():
            return False
        self._send_all_again |= self._sweep.run() > 0
        return True

    def _step(self) -> float:
        """Do what is due and return how long to wait for the next look."""
        for due in self._look():
            self._handle(due)
        pause = self._dispatch()
        return 0.0 if self.memory.searches.warm(REPLAY_SECONDS) else pause

    def _look(self) -> list[Due]:
        found = look(self.database, self.epoch)
        for due in found:
            if due.resumed:
                # Workers dropped the messages that came while the campaign stood still.
                self._send_all_again = True
                self._prepare(due.campaign_id)
        return [due for due in found if not due.busy]

    def _handle(self, due: Due) -> None:
        try:
            for step in handle(self.database, self.epoch, due, self.memory):
                self.log.info(step, campaign=due.campaign_id)
        except (LeadershipLost, DatabaseUnavailable):
            raise
        except Exception as error:  # the boundary that keeps one campaign's trouble from the others
            self.memory.forget(due.campaign_id)
            given_up = postpone(self.database, self.epoch, due, error)
            self.log.error("an event failed", campaign=due.campaign_id, given_up=given_up, exc_info=error)

    def _prepare(self, campaign_id: CampaignId) -> None:
        """Begin to rebuild a search while the campaign's episodes run, so that its next turn need not wait."""
        try:
            with self.database.transaction() as conn:
                self.memory.prepare(conn, turns.brief(conn, campaign_id))
        except (LeadershipLost, DatabaseUnavailable):
            raise
        except Exception as error:  # the turn meets it again
            self.log.warning("a search was not prepared", campaign=campaign_id, exc_info=error)

    def _dispatch(self) -> float:
        """Send what may be sent and return how long the next look can wait."""
        now = time.monotonic()
        if now < self._broker_away_until:
            return self.pace.poll_seconds
        republish_seconds = 0.0 if self._send_all_again else self.pace.republish_seconds
        try:
            seen = dispatch(
                self.database,
                self.publisher,
                self.epoch,
                window=self.pace.window,
                republish_seconds=republish_seconds,
            )
        except BrokerUnavailable as error:
            self.log.warning("broker unavailable, episodes wait", reason=str(error))
            self._broker_away_until = time.monotonic() + BROKER_RETRY_SECONDS
            return self.pace.poll_seconds
        self._send_all_again = False
        return self._next_pause(seen, now)

    def _next_pause(self, seen: Round, now: float) -> float:
        elapsed, self._looked = now - self._looked, now
        return self._tempo.next_pause(seen, elapsed)
