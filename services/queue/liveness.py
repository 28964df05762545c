"""Noticing a worker that is connected and consumes nothing, which happens to Celery when its broker comes and goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery import Celery, signals

from services.queue.publish import broker_errors, queue_lengths

SILENT_SECONDS = 30.0
LOOK_SECONDS = 5.0
LOOKS = 3


@dataclass
class Liveness:
    """Watches that messages arrive while there are some and a slot is free; calls ``on_stall`` once if not.

    Attributes:
        app: of the worker; it is asked over a connection of its own.
        slots: threads of the worker.
        on_stall: told why, in a sentence.
        silent_seconds: without a message before the broker is asked whether there are any.
        look_seconds: between two such questions; only several in a row tell.
    """

    app: Celery
    slots: int
    on_stall: Callable[[str], None]
    silent_seconds: float = SILENT_SECONDS
    look_seconds: float = LOOK_SECONDS
    _running: int = 0
    _arrived: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        signals.task_received.connect(self._received, weak=False)
        signals.task_prerun.connect(self._began, weak=False)
        signals.task_postrun.connect(self._ended, weak=False)
        threading.Thread(target=self._watch, name="liveness", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        signals.task_received.disconnect(self._received)
        signals.task_prerun.disconnect(self._began)
        signals.task_postrun.disconnect(self._ended)

    def _watch(self) -> None:
        looks = 0
        while not self._stop.wait(self.look_seconds):
            looks = looks + 1 if self._is_silent() and self._waiting() else 0
            if looks >= LOOKS:
                self.on_stall(f"messages wait and none has arrived for {time.monotonic() - self._arrived:.0f} s")
                return

    def _is_silent(self) -> bool:
        with self._lock:
            return self._running < self.slots and time.monotonic() - self._arrived > self.silent_seconds

    def _waiting(self) -> bool:
        try:
            return sum(queue_lengths(self.app).values()) > 0
        except broker_errors(self.app):
            return False  # a broker that is away is another matter: the consumer connects again by itself

    def _received(self, **_: Any) -> None:
        self._arrived = time.monotonic()

    def _began(self, **_: Any) -> None:
        with self._lock:
            self._running += 1

    def _ended(self, **_: Any) -> None:
        with self._lock:
            self._running -= 1
            self._arrived = time.monotonic()
