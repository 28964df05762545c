"""``python -m scheduler``: the composition root of the scheduler process."""

from __future__ import annotations

import signal
import sys

from scheduler.loop import Pace, Scheduler
from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.local import endpoints
from services.queue.app import make_app
from services.queue.publish import Publisher, require_broker
from services.storage import schema
from services.storage.engine import Database
from services.telemetry import logs


def compose(settings: Settings) -> Scheduler:
    """Build the scheduler; raise PrerequisiteMissing when database, schema or broker are not there."""
    database_url = endpoints.database_url(settings.database_url, settings.var_dir)
    broker_url = endpoints.broker_url(settings.broker_url, settings.var_dir)
    database = Database(database_url, application_name="trinity scheduler")
    with database.transaction() as conn:
        schema.check(conn)
    app = make_app(broker_url)
    require_broker(app)
    pace = Pace(
        poll_seconds=settings.poll_seconds,
        republish_seconds=settings.republish_seconds,
        window=settings.dispatch_window,
        grace_seconds=2 * settings.heartbeat_seconds,
    )
    return Scheduler(database, Publisher(app), pace, logs.logger("scheduler"))


def main() -> int:
    """Run until SIGTERM or SIGINT; exit 1 with one sentence when something needed is missing."""
    try:
        settings = load_settings()
        logs.configure(settings.log_level, as_json=settings.log_json)
        scheduler = compose(settings)
    except TrinityError as error:
        print(f"scheduler: {error}", file=sys.stderr)  # noqa: T201
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: scheduler.stop.set())
    scheduler.run()
    scheduler.publisher.close()
    scheduler.database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
