"""When a local pool fails on purpose, and how long it takes: drawn per request, in order of arrival.

Replies do not depend on these draws, so a campaign over a pool with faults ends where it ends without them.
"""

from __future__ import annotations

import random
import threading
from enum import StrEnum

from services.core.local_pool import Faults, Latency


class Fault(StrEnum):
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    HANG = "hang"
    MALFORMED = "malformed"


class Weather:
    """Seeded draws of one pool, safe for many threads."""

    def __init__(self, seed: int, latency: Latency, faults: Faults) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret depends on it
        self._lock = threading.Lock()
        self._latency = latency
        self._rates = tuple((fault, getattr(faults, fault.value)) for fault in Fault)

    def next(self) -> tuple[Fault | None, float]:
        """Return the fault of the next request, or None, and its latency in seconds."""
        with self._lock:
            chance, spread = self._random.random(), self._random.uniform(-1.0, 1.0)
        seconds = max(self._latency.mean_ms + spread * self._latency.jitter_ms, 0.0) / 1000.0
        for fault, rate in self._rates:
            if chance < rate:
                return fault, seconds
            chance -= rate
        return None, seconds
