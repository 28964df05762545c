"""When a model is left alone: after several failures in a row nobody asks it for a while, then one call tries it.

A model that does not answer costs every episode that chooses it the whole patience of its retries, and workers would
wait for it instead of working. States and their changes, with any clock that counts seconds::

    closed --OPENS_AFTER failures in a row--> open --time--> half open --an answer--> closed
                                               ^                 |
                                               +---a failure-----+  (for twice as long)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

OPENS_AFTER = 5
FIRST_SECONDS = 30.0
LONGEST_SECONDS = 600.0
# Openings in a row that are waited out, 30 + 60 + 120 s. Whatever lasts longer is for people to know.
WAITED_OUT = 3
# How long to wait before asking again while somebody else's call tries the model.
PROBED_SECONDS = 5.0


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(frozen=True)
class Breaker:
    """What is known of a model's health.

    Attributes:
        failures: in a row: no answer, a server error, or no completion. A refusal ends the row: the model is there.
        openings: in a row, without an answer in between.
        open_until: when it may be tried; None while it is closed.
        probe_until: until then a call is trying it; it has died if nothing was heard by then.
    """

    failures: int = 0
    openings: int = 0
    open_until: float | None = None
    probe_until: float | None = None

    def state(self, now: float) -> BreakerState:
        if self.open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.open_until else BreakerState.HALF_OPEN

    @property
    def lasting(self) -> bool:
        """Whether it has not answered for so long that waiting is no use."""
        return self.openings > WAITED_OUT

    def failed(self, now: float) -> Breaker:
        """Return it after one more failure. Calls that began before it opened prolong nothing."""
        counted = replace(self, failures=self.failures + 1)
        state = self.state(now)
        if state is BreakerState.OPEN or (state is BreakerState.CLOSED and counted.failures < OPENS_AFTER):
            return counted
        seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.openings, 16))
        return replace(counted, openings=self.openings + 1, open_until=now + seconds, probe_until=None)

    def wait_seconds(self, now: float) -> float:
        """Return 0 if a call may be made, as the one that tries the model where it is half open; else how long not."""
        if self.open_until is None:
            return 0.0
        if now < self.open_until:
            return self.open_until - now
        return PROBED_SECONDS if self.probe_until is not None and now < self.probe_until else 0.0

    def probed(self, now: float, seconds: float) -> Breaker:
        """Return it with a call under way that tries the model and takes so long at most."""
        return replace(self, probe_until=now + seconds)
