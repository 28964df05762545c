"""Living through a short absence of the database: the same step again, with growing pauses, while it still matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from services.core.errors import DatabaseUnavailable

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

T = TypeVar("T")


def through_outage(step: Callable[[], T], until: float, pause: Callable[[float], object] = time.sleep) -> T:
    """Return what ``step`` returns, repeating it while the database is away.

    Args:
        step: harmless when repeated after an answer that got lost.
        until: on the monotonic clock; no try begins later.
        pause: sleeps that many seconds; returns something true to give up at once.

    Raises:
        DatabaseUnavailable: that of the last try.
    """
    seconds = FIRST_PAUSE_SECONDS
    while True:
        try:
            return step()
        except DatabaseUnavailable:
            if time.monotonic() + seconds > until or pause(seconds):
                raise
        seconds = min(2 * seconds, LONGEST_PAUSE_SECONDS)
