"""Running a Celery worker inside this process, with threads for slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals


def serve(app: Celery, *, name: str, slots: int, on_stop: Callable[[], None]) -> None:
    """Consume until SIGTERM or SIGINT, or until Celery gives up, and wait for the tasks that run then.

    Threads, because episodes wait for models most of the time and share one language model. Gossip and mingle are off:
    they leave orphan queues behind and nothing here needs them.

    Args:
        app: with its tasks registered.
        name: of this worker among others.
        slots: threads.
        on_stop: called before running tasks are waited for: in the signal's handler, and once more when Celery closes,
            which it also does by itself after an error it cannot handle.
    """

    def stopping(**_: Any) -> None:
        on_stop()

    class Closing(bootsteps.StartStopStep):  # type: ignore[misc]
        def close(self, worker: Any) -> None:
            on_stop()

    signals.worker_shutting_down.connect(stopping, weak=False)
    app.steps["worker"].add(Closing)
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
