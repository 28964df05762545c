"""``python -m worker``: the composition root of a worker process, a Celery worker with a thread per slot."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from functools import partial

from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.encoder.coordinator import EncoderService
from services.local import endpoints
from services.queue.app import make_app
from services.queue.publish import require_broker
from services.queue.serve import serve
from services.storage import schema
from services.storage.engine import Database
from services.telemetry import logs
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.tasks import register


def compose(settings: Settings, database_url: str) -> Runtime:
    """Build what the episode threads share; raise PrerequisiteMissing when the database or its schema is not there."""
    log = logs.logger("worker")
    database = Database(database_url, application_name="trinity worker", pool_size=min(settings.worker_slots, 8))
    with database.transaction() as conn:
        schema.check(conn)
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    encoders = EncoderService(
        settings.models_folder(),
        threads=settings.encoder_threads,
        parallel=settings.encoder_parallel,
        cache_file=settings.var_dir / "cache" / "states.sqlite",
        announce=lambda text: log.info(text),
    )
    held = HeldLeases(database, owner, settings.lease_seconds, settings.heartbeat_seconds, log)
    return Runtime(database, owner, encoders, held, settings.lease_seconds, settings.resolve_base_url, log)


def main() -> int:
    """Work until SIGTERM, then hand back what cannot be finished; exit 1 with one sentence if something is missing."""
    try:
        settings = load_settings()
        logs.configure(settings.log_level, as_json=settings.log_json)
        database_url = endpoints.database_url(settings.database_url, settings.var_dir)
        broker_url = endpoints.broker_url(settings.broker_url, settings.var_dir)
        app = make_app(broker_url)
        require_broker(app)
        runtime = compose(settings, database_url)
    except TrinityError as error:
        print(f"worker: {error}", file=sys.stderr)  # noqa: T201
        return 1
    register(app, partial(run, runtime), runtime.log)
    runtime.held.start()
    try:
        serve(
            app,
            name=f"worker-{os.getpid()}@{socket.gethostname()}",
            slots=settings.worker_slots,
            on_stop=runtime.stopping.set,
        )
    finally:
        runtime.held.stop()
        runtime.encoders.close()
        runtime.database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
