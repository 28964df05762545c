"""``python -m tests.support.stub_worker``: a worker process with stand-ins for the language model and the pool.

Everything else is the product's: the consumer, claims, leases, the writer, budgets, scoring. It needs
TRINITY_DATABASE_URL and TRINITY_BROKER_URL, takes the other settings from the environment too, and starts fast, for it
imports neither torch nor litellm.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.local import endpoints
from services.queue.app import Celery, make_app
from services.storage.records import ClaimedEpisode
from services.telemetry import logs
from tests.support.stub_models import StubBehaviour, StubEncoders, StubPool, Tries
from worker.leases import HeldLeases, Lease
from worker.process import assemble, connect, work
from worker.runtime import Runtime


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stub_worker")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--name", default="stub")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="of every call")
    parser.add_argument("--turns", type=float, default=None, help="mean turns of an episode")
    parser.add_argument("--right-share", type=float, default=0.5, help="share of sums that are answered right")
    parser.add_argument("--fail-share", type=float, default=0.0, help="share of calls that fail")
    parser.add_argument("--die-on", default="", help="part of an episode's label; the process kills itself there")
    parser.add_argument("--visibility-timeout", type=float, default=None, help="of Redis, in seconds")
    return parser.parse_args(words)


class Playing(threading.local):
    """The claim that a thread plays."""

    claim: ClaimedEpisode


@dataclass
class WatchedLeases(HeldLeases):
    """Tells the stand-ins which attempt their thread plays; dies with it where that is asked for."""

    playing: Playing = field(default_factory=Playing)
    tries: Tries = field(default_factory=Tries)
    die_on: str = ""

    def hold(self, claim: ClaimedEpisode, claimed_at: float) -> Lease:
        if self.die_on and self.die_on in claim.label:
            os.kill(os.getpid(), signal.SIGKILL)
        self.playing.claim = claim
        self.tries.begin(claim.episode_id, claim.attempt)
        return super().hold(claim, claimed_at)


def compose(settings: Settings, database_url: str, behaviour: StubBehaviour, die_on: str = "") -> Runtime:
    log = logs.logger("worker")
    playing, tries = Playing(), Tries()
    encoders = StubEncoders(lambda: runtime.campaign(playing.claim).hidden_size)
    database = connect(settings, database_url)
    runtime = assemble(
        settings, database, database_url, log, encoders, lambda campaign: StubPool(campaign, behaviour, tries)
    )
    runtime.held = WatchedLeases(
        runtime.database, settings.lease_seconds, settings.heartbeat_seconds, log,
        playing=playing, tries=tries, die_on=die_on,
    )  # fmt: skip
    return runtime


def consumer(settings: Settings, visibility_timeout: float | None) -> Celery:
    app = make_app(endpoints.broker_url(settings.broker_url, settings.var_dir))
    if visibility_timeout is not None:
        app.conf.broker_transport_options |= {"visibility_timeout": visibility_timeout, "ack_emulation": True}
    return app


def main(words: Sequence[str]) -> int:
    given = arguments(words)
    behaviour = StubBehaviour(given.latency_ms / 1000, given.right_share, given.turns, given.fail_share)
    try:
        settings = load_settings()
        logs.configure(settings.log_level, as_json=settings.log_json)
        database_url = endpoints.database_url(settings.database_url, settings.var_dir)
        app = consumer(settings, given.visibility_timeout)
        runtime = compose(settings, database_url, behaviour, given.die_on)
    except TrinityError as error:
        print(f"stub worker: {error}", file=sys.stderr)  # noqa: T201
        return 1
    asked = work(app, runtime, name=given.name, slots=given.slots, drain_seconds=settings.drain_seconds)
    return 0 if asked else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
