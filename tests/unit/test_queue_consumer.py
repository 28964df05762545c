from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.queue import consumer
from services.queue.app import make_app
from services.queue.consumer import FLUSH_SECONDS, LARGEST_GROUP, Consumer


@dataclass
class Hub:
    """Runs what is due soon at once and keeps what is due later."""

    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        callback(*args)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.later.append((seconds, callback))


@dataclass
class Dispatcher:
    buffer_limit: int = 24
    flushes: int = 0

    def flush(self) -> None:
        self.flushes += 1


@dataclass
class Clock:
    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Desk:
    consumer: Any
    hub: Hub
    clock: Clock


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    clock = Clock()
    monkeypatch.setattr(consumer, "time", clock)
    made = Consumer.__new__(Consumer)
    made.hub, made.event_dispatcher = Hub(), Dispatcher()
    return Desk(made, made.hub, clock)


def test_events_of_one_moment_are_sent_together_and_soon(desk: Desk) -> None:
    for _ in range(5):
        desk.consumer.on_send_event_buffered()
    ((seconds, flush),) = desk.hub.later
    assert seconds == FLUSH_SECONDS
    assert desk.consumer.event_dispatcher.flushes == 0
    flush()
    assert desk.consumer.event_dispatcher.flushes == 1
    assert desk.consumer.event_dispatcher.buffer_limit == LARGEST_GROUP


def test_an_event_after_the_flush_is_sent_by_another_one(desk: Desk) -> None:
    desk.consumer.on_send_event_buffered()
    desk.clock.now += FLUSH_SECONDS
    desk.consumer.on_send_event_buffered()
    assert len(desk.hub.later) == 2


def test_a_flush_that_was_forgotten_with_the_connection_is_asked_for_again(desk: Desk) -> None:
    desk.consumer.on_send_event_buffered()
    desk.hub.later.clear()
    desk.clock.now += FLUSH_SECONDS
    desk.consumer.on_send_event_buffered()
    assert len(desk.hub.later) == 1


def test_workers_use_it() -> None:
    assert make_app("redis://127.0.0.1:1/0").conf.worker_consumer == f"{Consumer.__module__}:{Consumer.__name__}"
