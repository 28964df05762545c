"""Running a Celery worker inside this process, with threads for slots."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals

from services.queue.liveness import Liveness


def serve(app: Celery, *, name: str, slots: int, on_stop: Callable[[], None]) -> bool:
    """Consume until SIGTERM or SIGINT, or until Celery gives up, and wait for the tasks that run then.

    Returns whether somebody asked for the end. If not, the process should be started anew: Celery met an error that it
    takes for the end, or it was connected and consumed nothing.

    Threads, because episodes wait for models most of the time and share one language model. Gossip and mingle are off:
    they leave orphan queues behind and nothing here needs them.

    Args:
        app: with its tasks registered.
        name: of this worker among others.
        slots: threads.
        on_stop: called before running tasks are waited for: in the signal's handler, and once more when Celery closes,
            which it also does by itself after an error it cannot handle.
    """

    asked, stalled = threading.Event(), threading.Event()

    def stopping(**_: Any) -> None:
        asked.set()
        on_stop()

    def stall(reason: str) -> None:
        logging.getLogger(__name__).error("the worker stops to be started anew: %s", reason)
        stalled.set()
        os.kill(os.getpid(), signal.SIGTERM)

    class Closing(bootsteps.StartStopStep):  # type: ignore[misc]
        def close(self, worker: Any) -> None:
            on_stop()

    signals.worker_shutting_down.connect(stopping, weak=False)
    app.steps["worker"].add(Closing)
    liveness = Liveness(app, slots, stall)
    liveness.start()
    app.worker_main(
        [
            "--quiet",
            "worker",
            "--pool=threads",
            f"--concurrency={slots}",
            f"--hostname={name}",
            "--loglevel=WARNING",
            "--task-events",
            "--without-gossip",
            "--without-mingle",
        ]
    )
    liveness.stop()
    return asked.is_set() and not stalled.is_set()
