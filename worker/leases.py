"""The attempts this worker holds: kept alive by one thread for all of them, and stopped when they must not go on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from services.core.errors import AttemptInterrupted, DatabaseUnavailable
from services.storage import leases
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from services.telemetry.logs import Log

RETRY_SECONDS = 1.0  # after a heartbeat that failed


@dataclass(eq=False)
class Lease:
    """One attempt's right to go on.

    Attributes:
        claim: the attempt.
        seconds: how long the right lasts.
        renewed_at: on the monotonic clock, a moment at or before its latest extension.
    """

    claim: ClaimedEpisode
    seconds: float
    renewed_at: float
    _stop: threading.Event = field(default_factory=threading.Event)
    _reason: str = ""

    def interrupt(self, reason: str) -> None:
        """Let the attempt end at its next check."""
        self._reason = self._reason or reason
        self._stop.set()

    def check(self) -> None:
        """Raise AttemptInterrupted when the attempt must not go on.

        A lease that nobody extended in time counts as lost whether or not the heartbeat's thread has noticed: that one
        may hang in the database itself.
        """
        if self._stop.is_set():
            raise AttemptInterrupted(f"{self.claim.label}: {self._reason}")
        if time.monotonic() - self.renewed_at > self.seconds:
            raise AttemptInterrupted(f"{self.claim.label}: no heartbeat for {self.seconds:g} s")

    def wait(self, seconds: float) -> None:
        """Pause, but not longer than until the attempt is interrupted."""
        self._stop.wait(seconds)
        self.check()


@dataclass
class HeldLeases:
    """Extends all leases every ``heartbeat_seconds`` and interrupts those that the database no longer lets go on."""

    database: Database
    lease_seconds: float
    heartbeat_seconds: float
    log: Log
    _held: set[Lease] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def hold(self, claim: ClaimedEpisode, claimed_at: float) -> Lease:
        """Keep a claim alive from now on; ``claimed_at`` is when it was asked for, on the monotonic clock."""
        lease = Lease(claim, self.lease_seconds, claimed_at)
        with self._lock:
            self._held.add(lease)
        return lease

    def drop(self, lease: Lease) -> None:
        with self._lock:
            self._held.discard(lease)

    def all(self) -> list[Lease]:
        with self._lock:
            return list(self._held)

    def interrupt_all(self, reason: str) -> None:
        for lease in self.all():
            lease.interrupt(reason)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.heartbeat_seconds)

    def beat(self) -> bool:
        """Extend what is held; return False when the database could not be asked."""
        held = self.all()
        if not held:
            return True
        asked_at = time.monotonic()
        try:
            with self.database.statement() as conn:
                kept = leases.heartbeat(conn, [lease.claim for lease in held], self.lease_seconds)
        except DatabaseUnavailable as error:
            self.log.warning("heartbeat failed", reason=str(error), leases=len(held))
            return False
        for lease in held:
            if (lease.claim.episode_id, lease.claim.attempt) in kept:
                lease.renewed_at = asked_at
            else:
                lease.interrupt("its lease is lost, or its campaign does not run")
        return True

    def _run(self) -> None:
        pause = self.heartbeat_seconds
        while not self._stop.wait(pause):
            try:
                answered = self.beat()
            except Exception as error:  # noqa: BLE001 - without this thread the worker could finish nothing any more
                self.log.error("heartbeat failed", reason=f"{type(error).__name__}: {error}")
                answered = False
            pause = self.heartbeat_seconds if answered else min(RETRY_SECONDS, self.heartbeat_seconds)
