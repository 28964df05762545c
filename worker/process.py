"""A worker process put together from its parts, whatever reads the conversations and whatever answers."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from functools import partial

from services.config.settings import Settings
from services.core.campaign import Campaign
from services.core.protocol.ports import Encoders, ModelPool
from services.core.scoring.scorer import Graders
from services.queue.app import Celery
from services.queue.serve import serve
from services.storage import schema
from services.storage.engine import Database
from services.telemetry.logs import Log
from worker.drain import Drain
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.tasks import register
from worker.writer import Writer


def connect(settings: Settings, database_url: str) -> Database:
    """Return the database of the episode threads; raise PrerequisiteMissing when it or its schema is not there."""
    database = Database(database_url, application_name="trinity worker", pool_size=min(settings.worker_slots, 8))
    with database.transaction() as conn:
        schema.check(conn)
    return database


def assemble(
    settings: Settings,
    database: Database,
    database_url: str,
    log: Log,
    encoders: Encoders,
    make_pool: Callable[[Campaign], ModelPool],
    graders: Graders | None = None,
) -> Runtime:
    """Build what the episode threads share."""
    writing = Database(database_url, application_name="trinity worker writer", pool_size=1, ping=False)
    return Runtime(
        database=database,
        writer=Writer(writing, settings.lease_seconds, log),
        held=HeldLeases(database, settings.lease_seconds, settings.heartbeat_seconds, log),
        encoders=encoders,
        make_pool=make_pool,
        owner=f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
        lease_seconds=settings.lease_seconds,
        log=log,
        graders=graders or Graders(),
    )


def work(app: Celery, runtime: Runtime, *, name: str, slots: int, drain_seconds: float) -> bool:
    """Work until SIGTERM, then hand back what cannot be finished; ends the process itself if that takes too long.

    Returns whether somebody asked for the end; if not, the process should be started anew.
    """
    register(app, partial(run, runtime), runtime.log)
    drain = Drain(runtime, drain_seconds)
    drain.start()
    runtime.writer.start()
    runtime.held.start()
    try:
        return serve(app, name=f"{name}@{socket.gethostname()}", slots=slots, on_stop=drain.ask)
    finally:
        drain.ask()  # closing has the same bound, should the consumer have ended without a signal
        runtime.held.stop()
        runtime.writer.stop()
        runtime.encoders.close()
        runtime.database.close()
