"""Running a Celery worker inside this process, with threads for slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, signals


def serve(app: Celery, *, name: str, slots: int, on_stop: Callable[[], None]) -> None:
    """Consume until SIGTERM or SIGINT; ``on_stop`` is called at the signal, before running tasks are waited for.

    Threads, because episodes wait for models most of the time and share one language model. Gossip and mingle are off:
    they leave orphan queues behind and nothing here needs them.
    """

    def stopping(**_: Any) -> None:
        on_stop()

    signals.worker_shutting_down.connect(stopping, weak=False)
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
