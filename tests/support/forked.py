"""Scheduler processes that start in a moment: forked from a server that has imported everything already."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import AbstractContextManager
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import FrameType

from scheduler.loop import Pace, Scheduler
from services.queue.app import make_app
from services.queue.publish import Publisher
from services.storage.engine import Database
from services.telemetry import logs

# Woken by notifications, so that nearly every operation belongs to a turn.
PACE = Pace(poll_seconds=5.0, republish_seconds=60.0, window=64, grace_seconds=0.0)


def schedule(database_url: str, broker_url: str) -> None:
    """Be a scheduler until SIGTERM."""
    database = Database(database_url, application_name="trinity scheduler")
    scheduler = Scheduler(database, Publisher(make_app(broker_url)), PACE, logs.logger("scheduler"))

    def leave(number: int, frame: FrameType | None) -> None:
        scheduler.stop.set()

    signal.signal(signal.SIGTERM, leave)
    scheduler.run()
    scheduler.publisher.close()
    database.close()


class ForkedScheduler(AbstractContextManager["ForkedScheduler"]):
    """One scheduler process; whatever of it still runs at the end is killed."""

    _context: ForkServerContext | None = None

    def __init__(self, database_url: str, broker_url: str) -> None:
        self._addresses = (database_url, broker_url)

    def __enter__(self) -> ForkedScheduler:
        self.process: ForkServerProcess = self._server().Process(target=schedule, args=self._addresses, daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def kill(self) -> None:
        """Kill it at once (SIGKILL) and wait until it is gone."""
        self.process.kill()
        self.process.join()

    @classmethod
    def _server(cls) -> ForkServerContext:
        if cls._context is None:
            cls._context = multiprocessing.get_context("forkserver")
            cls._context.set_forkserver_preload([__name__])
        return cls._context
