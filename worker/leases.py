"""The attempts this worker holds, kept alive by one thread for all of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from services.core.errors import DatabaseUnavailable
from services.core.ids import EpisodeId
from services.storage import leases
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from services.telemetry.logs import Log


@dataclass
class HeldLeases:
    """Extends all leases every ``heartbeat_seconds``.

    A lease that could not be extended is not acted upon here: the next reservation of its attempt is refused by the
    database, so no call starts for an attempt that is lost, whether or not this thread has noticed.
    """

    database: Database
    owner: str
    lease_seconds: float
    heartbeat_seconds: float
    log: Log
    _held: set[tuple[EpisodeId, int]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def hold(self, claim: ClaimedEpisode) -> None:
        with self._lock:
            self._held.add((claim.episode_id, claim.attempt))

    def drop(self, claim: ClaimedEpisode) -> None:
        with self._lock:
            self._held.discard((claim.episode_id, claim.attempt))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self.heartbeat_seconds):
            with self._lock:
                held = set(self._held)
            if not held:
                continue
            try:
                with self.database.statement() as conn:
                    kept = leases.heartbeat(conn, held, self.owner, self.lease_seconds)
            except DatabaseUnavailable as error:
                self.log.warning("heartbeat failed", reason=str(error), leases=len(held))
                continue
            if lost := held - kept:
                self.log.info("leases not extended", episodes=sorted(episode for episode, _ in lost))
