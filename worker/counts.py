"""What a worker has counted since it started, for its metrics page."""

from __future__ import annotations

import threading
from collections.abc import Mapping

CALLS = "calls_total"
ERRORS = "call_errors_total"
HITS = "answer_hits_total"
WAITED = "limit_wait_seconds_total"
REFUSED = "breaker_refusals_total"


class Counts:
    """Numbers by name that only grow; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = dict.fromkeys((CALLS, ERRORS, HITS, WAITED, REFUSED), 0.0)

    def add(self, name: str, amount: float = 1.0) -> None:
        with self._lock:
            self._numbers[name] += amount

    def read(self) -> Mapping[str, float]:
        with self._lock:
            return dict(self._numbers)
