"""A clock for threads that wait long: when all of them wait it jumps, and the database's notes of time with it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from services.storage.engine import Database
from tests.support.storage import query
from worker.leases import Lease


@dataclass
class VirtualTime:
    """Real time and the jumps; ``threads`` take part."""

    database: Database
    threads: int
    jumped: float = 0.0
    _targets: list[float] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def now(self) -> float:
        return time.monotonic() + self.jumped

    def sleep(self, seconds: float) -> None:
        with self._changed:
            target = self.now() + seconds
            self._targets.append(target)
            while self.now() < target:
                if len(self._targets) == self.threads and min(self._targets) > self.now():
                    self._jump(min(self._targets) - self.now())
                else:
                    self._changed.wait(0.01)
            self._targets.remove(target)
            self._changed.notify_all()

    def leave(self) -> None:
        """Take part no more."""
        with self._changed:
            self.threads -= 1
            self._changed.notify_all()

    def _jump(self, seconds: float) -> None:
        with self.database.transaction() as conn:
            query(conn, f"update llm_call set granted_at = granted_at - make_interval(secs => {seconds})")
        self.jumped += seconds
        self._changed.notify_all()


@dataclass(eq=False)
class PatientLease(Lease):
    """A lease whose holder waits by the virtual clock."""

    clock: VirtualTime | None = None

    def wait(self, seconds: float) -> None:
        assert self.clock is not None
        self.clock.sleep(seconds)
        self.check()
