"""The worker's consumer: Celery's own, but for what it costs."""

from __future__ import annotations

import time
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

FLUSH_SECONDS = 0.2
LARGEST_GROUP = 300  # events


class Consumer(CeleryConsumer):  # type: ignore[misc]
    """Sends buffered task events every ``FLUSH_SECONDS`` instead of at every turn of the loop.

    Celery's own consumer publishes once for nearly every task, which costs more than running a task. Events carry the
    time at which they happened, so what watches them sees the same, a moment later. A full buffer is sent at once.
    """

    _next_flush = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what Celery passes; see its class."""
        super().__init__(*args, **kwargs)
        _ = self.app.backend  # there is none, which every thread would find out slowly at its first task

    def on_send_event_buffered(self) -> None:
        """Have the buffer sent soon; called by the threads of the pool too."""
        now = time.monotonic()
        # By the clock rather than by a flag: timers are forgotten when the connection breaks.
        if self.hub and now >= self._next_flush:
            self._next_flush = now + FLUSH_SECONDS
            self.hub.call_soon(self._flush_later, self.hub)

    def _flush_later(self, hub: Any) -> None:
        if self.event_dispatcher:
            self.event_dispatcher.buffer_limit = LARGEST_GROUP
        hub.call_later(FLUSH_SECONDS, self._flush_events)
