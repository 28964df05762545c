from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from celery import signals

from services.queue import liveness
from services.queue.app import make_app
from services.queue.liveness import Liveness

Watch = Callable[..., threading.Event]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Watch a worker with one slot on a queue of the given length; the event tells of a stall."""
    made: list[Liveness] = []

    def started(waiting: int, silent_seconds: float = 0.1) -> threading.Event:
        monkeypatch.setattr(liveness, "queue_lengths", lambda app: {"episodes": waiting})
        stalled = threading.Event()
        watched = Liveness(
            make_app("redis://127.0.0.1:1/0"),
            1,
            lambda reason: stalled.set(),
            silent_seconds=silent_seconds,
            look_seconds=0.02,
        )
        watched.start()
        made.append(watched)
        return stalled

    yield started
    for watched in made:
        watched.stop()


def test_messages_that_wait_while_a_slot_is_free_are_a_stall(watch: Watch) -> None:
    assert watch(3).wait(10)


def test_an_empty_queue_is_no_stall(watch: Watch) -> None:
    assert not watch(0).wait(0.5)


def test_a_busy_worker_is_no_stall(watch: Watch) -> None:
    stalled = watch(3, silent_seconds=2.0)
    signals.task_prerun.send(sender=None)
    assert not stalled.wait(3)
    signals.task_postrun.send(sender=None)
    assert stalled.wait(10)


def test_a_worker_that_gets_messages_is_no_stall(watch: Watch) -> None:
    stalled = watch(3, silent_seconds=2.0)
    for _ in range(30):
        signals.task_received.send(sender=None)
        assert not stalled.wait(0.1)
