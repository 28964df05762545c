"""Flower on our application: behind a password, read-only, bounded in memory, with nothing secret in any argument list.

Flower's own command takes its options from arguments and from the environment, where every user of the machine could
read the password. Here they are set in the process.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from flower.app import Flower
from flower.options import default_options
from flower.urls import settings as page_settings
from flower.views.monitor import Metrics

from services.queue.app import make_app

KEPT_TASKS = 10_000
SAVE_EVERY_MS = 10_000
COLUMNS = "name,kwargs,state,received,started,runtime,worker"


@dataclass(frozen=True)
class FlowerOptions:
    """Where Flower listens, who may look, and where it keeps what it has seen between starts."""

    broker_url: str
    host: str
    port: int
    user: str
    password: str
    state_file: Path


class GuardedMetrics(Metrics):  # type: ignore[misc]
    """Flower leaves its metrics open although they name workers and tasks."""

    def prepare(self) -> None:
        """Refuse with 401 unless the request carries the credentials."""
        self.get_current_user()


def serve(chosen: FlowerOptions) -> None:
    """Run Flower until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    application = make_flower(chosen)
    atexit.register(application.stop)
    signal.signal(signal.SIGTERM, leave)
    application.start_http_server()
    try:
        application.start()
    except KeyboardInterrupt:
        return


def make_flower(chosen: FlowerOptions) -> Flower:
    """Return Flower with our options; it does not listen yet."""
    app = make_app(chosen.broker_url)
    for name, value in flower_settings(chosen).items():
        setattr(default_options, name, value)
    # Sessions outlive a restart, yet nobody can forge one without the password.
    secret = hashlib.sha256(f"flower cookie {chosen.password}".encode()).hexdigest()
    application = Flower(capp=app, options=default_options, **{**page_settings, "cookie_secret": secret})
    application.add_handlers(".*", [("/metrics", GuardedMetrics)])
    return application


def flower_settings(chosen: FlowerOptions) -> dict[str, Any]:
    return {
        "address": chosen.host,
        "port": chosen.port,
        "basic_auth": [f"{chosen.user}:{chosen.password}"],
        "read_only": True,
        "max_tasks": KEPT_TASKS,
        "persistent": True,
        "db": str(chosen.state_file),
        "state_save_interval": SAVE_EVERY_MS,
        "tasks_columns": COLUMNS,
    }


def leave(number: int, frame: FrameType | None) -> None:
    """End the process through its exit handlers, which save what Flower has seen."""
    sys.exit(0)
