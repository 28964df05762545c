"""What a leader does every second whether or not anything happened: beat, take back lost leases, keep limits."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

from scheduler import health
from scheduler.memory import Memory
from services.core.errors import BudgetExhausted, IllegalTransition, SpecError
from services.storage import campaign_states, campaigns, failures, leadership, leases
from services.storage.engine import Connection, Database
from services.telemetry.logs import Log

SWEEP_SECONDS = 1.0
# Between two sweeps no more than this passes unless somebody was away: this process, its machine, the database.
GAP_SECONDS = 5.0


@dataclass
class Sweep:
    """The sweeps of one term of office.

    Attributes:
        grace_seconds: no lease expires for so long after the beginning and after a gap, because whoever was away may
            have kept the workers from showing their signs of life.
    """

    database: Database
    epoch: int
    grace_seconds: float
    memory: Memory
    log: Log

    def __post_init__(self) -> None:
        self._last = time.monotonic() - SWEEP_SECONDS
        self._spared_until = time.monotonic() + self.grace_seconds

    def due_in(self) -> float:
        """Return the seconds until the next sweep, 0 when it is due."""
        return max(0.0, self._last + SWEEP_SECONDS - time.monotonic())

    def is_due(self) -> bool:
        return self.due_in() == 0.0

    def run(self) -> int:
        """Sweep once and return how many leases were lost.

        Raises:
            LeadershipLost: another scheduler took office.
        """
        now = time.monotonic()
        if now - self._last > GAP_SECONDS:
            self._spared_until = now + self.grace_seconds
        self._last = now
        with self.database.transaction() as conn:
            leadership.beat(conn, self.epoch)
            expired = leases.expire(conn, epoch=self.epoch) if now >= self._spared_until else 0
        with self.database.transaction() as conn:
            leadership.require(conn, self.epoch)
            self._stop_overdue(conn)
            self._pause_troubled(conn)
        if expired:
            self.log.warning("leases expired", episodes=expired)
        return expired

    def _stop_overdue(self, conn: Connection) -> None:
        for campaign_id in campaigns.overdue(conn):
            record = campaigns.by_id(conn, campaign_id)
            limit = Decimal(str(record.budget.wall_clock_seconds))
            error = BudgetExhausted("wall clock seconds", limit, round(Decimal(record.running_seconds), 1), 0, 0)
            if campaign_states.exhaust(conn, campaign_id, error):
                self.log.warning(str(error), campaign=campaign_id)

    def _pause_troubled(self, conn: Connection) -> None:
        for ended in failures.newest_ended(conn, health.NEWEST):
            if ended.attempts < health.AT_LEAST:
                continue
            # One that cannot be read stops its campaign at its next turn; one that ended meanwhile needs no pause.
            with suppress(SpecError, IllegalTransition):
                campaign = self.memory.campaign(conn, ended.campaign_id, ended.spec_sha256)
                reason = health.trouble(ended, campaign.max_failure_share)
                if reason is not None and campaign_states.pause(conn, ended.campaign_id, reason):
                    self.log.error("campaign paused", campaign=ended.campaign_id, reason=reason)
