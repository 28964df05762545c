"""``python -m worker``: the composition root of a worker process, a Celery worker with a thread per slot."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

from services.config.settings import Settings, load_settings
from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.protocol.ports import ModelPool
from services.local import endpoints
from services.queue.app import make_app
from services.queue.publish import require_broker
from services.storage.engine import Database
from services.telemetry import logs
from worker.grading import graders
from worker.process import assemble, connect, work
from worker.runtime import Runtime


def compose(settings: Settings, database: Database, database_url: str, closing: ExitStack) -> Runtime:
    """Build the runtime with the coordinator's language model, the providers and what judges; ``closing`` ends them."""
    # Torch and litellm take ten seconds of a slow core; what is missing should be said before that.
    from services.encoder.coordinator import EncoderService
    from services.encoder.slm import chosen
    from services.pool.litellm_client import LitellmPool
    from services.telemetry import metrics

    log = logs.logger("worker")
    judging = graders(closing, settings.sandbox_python)
    if settings.sandbox_required and judging.programs is not None:
        log.info("programs run in the sandbox", sandbox=judging.programs.name)
    encoders = EncoderService(
        settings.models_folder(),
        device=chosen(settings.device),
        memory_bytes=settings.encoder_memory_bytes(),
        threads=settings.encoder_threads,
        parallel=settings.encoder_parallel,
        cache_file=settings.var_dir / "cache" / "states.sqlite",
        announce=lambda text: log.info(text),
    )

    if settings.metrics_port is not None:
        ports = range(settings.metrics_port, min(settings.metrics_port + max(1, settings.workers), 65_536))
        closing.enter_context(metrics.serve(settings.metrics_host, ports, encoders.metrics))

    def make_pool(campaign: Campaign) -> ModelPool:
        return LitellmPool(campaign.pool, settings.resolve_base_url)

    return assemble(settings, database, database_url, log, encoders, make_pool, judging)


def main() -> int:
    """Work until told to stop; exit 1 if something is missing, in one sentence, or if the consumer failed."""
    with ExitStack() as closing:
        try:
            settings = load_settings()
            logs.configure(settings.log_level, as_json=settings.log_json)
            database_url = endpoints.database_url(settings.database_url, settings.var_dir)
            broker_url = endpoints.broker_url(settings.broker_url, settings.var_dir)
            app = make_app(broker_url)
            require_broker(app)
            runtime = compose(settings, connect(settings, database_url), database_url, closing)
        except TrinityError as error:
            print(f"worker: {error}", file=sys.stderr)  # noqa: T201
            return 1
        name = f"worker-{os.getpid()}"
        asked = work(app, runtime, name=name, slots=settings.worker_slots, drain_seconds=settings.drain_seconds)
        return 0 if asked else 1


if __name__ == "__main__":
    sys.exit(main())
