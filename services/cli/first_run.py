"""What ``quickstart`` does: weights, services, campaign, watching, comparison, report, and a clean end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType

from services.cli import connections, render, reporting, submission, watching
from services.config.settings import Settings
from services.core.campaign import EncoderSpec
from services.core.errors import PrerequisiteMissing, TrinityError
from services.core.states import CampaignState
from services.local import supervisor
from services.storage import campaigns
from services.storage.engine import Database

START_SECONDS = 180.0
LOOK_SECONDS = 0.2
STOPPED = watching.STOPPED | {CampaignState.PAUSED}


def run(file: Path, settings: Settings, *, keep: bool) -> int:
    """Return the exit status: 0 when the campaign completed and its report is written, else 1."""
    began = time.monotonic()
    prepared = submission.prepare(file, settings)
    obtain_weights(prepared.campaign.encoder, settings)
    with terminable(), running_services(settings, keep=keep) as services:
        with connections.open_database(settings) as database:
            prepared = submission.renamed(prepared, free_name(database, prepared.campaign.name))
            submission.submit(prepared, settings)
            name = prepared.campaign.name
            render.say(f"submitted campaign {name}: {prepared.sizes()}")
            ended = watching.watch(database, settings, name, interval=1.0, stop_at=STOPPED, alive=services.require)
            facts = reporting.facts_of(database, name)
        reporting.show_comparison(facts)
        page = reporting.write(facts, settings.var_dir / "reports" / name)
    render.show(f"\nreport: {page}")
    render.say(f"{name} is {ended} after {render.duration(time.monotonic() - began)}")
    return 0 if ended is CampaignState.COMPLETED else 1


def obtain_weights(encoder: EncoderSpec, settings: Settings) -> None:
    """Make the encoder's files ready in a process of its own: this one never loads a model.

    Raises:
        PrerequisiteMissing: they cannot be had; the process has said why.
    """
    render.say(f"encoder {encoder.model}")
    argv = [sys.executable, "-m", "services.encoder", encoder.model, "--model-dir", str(settings.models_folder())]
    if encoder.revision is not None:
        argv += ["--revision", encoder.revision]
    if subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise PrerequisiteMissing(f"the encoder {encoder.model} is not ready", "cure what the line above names")


class Services:
    """The running ``manage.py up``, started here by ``start`` or by somebody else before."""

    def __init__(self, log: Path) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log

    def start(self) -> None:
        """Start ``manage.py up`` in a session of its own, so that a Ctrl-C here reaches it in our order only."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        render.say(f"starting the services (log: {self._log})")
        argv = [sys.executable, "-m", "services.cli", "up"]
        # An interrupt between the fork and the assignment would leave services that nobody knows of.
        with self._log.open("wb") as output, interrupts_held():
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def require(self) -> None:
        """Raise TrinityError if the services that were started here have gone."""
        if self._process is not None and self._process.poll() is not None:
            raise TrinityError(f"`manage.py up` ended with status {self._process.returncode}; {last_words(self._log)}")

    def stop(self) -> None:
        """Stop what was started here and wait for it; it may be anywhere between its first instruction and its last."""
        if self._process is not None and self._process.poll() is None:
            render.say("stopping the services")
            self._process.terminate()
            self._process.wait()


@contextmanager
def running_services(settings: Settings, *, keep: bool) -> Iterator[Services]:
    """Use the services that run on this folder, or start them and stop them at the end unless they shall be kept."""
    log = settings.var_dir / "log" / "up.log"
    running = supervisor.status(settings.var_dir) is not None
    if running:
        render.say("the services run already")
    services = Services(log)
    try:
        if not running:
            services.start()
        wait_until_ready(services, settings)
        yield services
    finally:
        if keep:
            render.say("the services go on; `manage.py down` stops them")
        else:
            services.stop()


def wait_until_ready(services: Services, settings: Settings) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        services.require()
        status = supervisor.status(settings.var_dir)
        if status is not None and status.ready:
            render.say(f"running: {', '.join(status.processes)}")
            return
        if time.monotonic() > deadline:
            raise PrerequisiteMissing(f"the services were not up within {START_SECONDS:.0f} s", "look into var/log")
        time.sleep(LOOK_SECONDS)


def last_words(log: Path) -> str:
    """Return the last line of a log, which is its error's sentence."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"{log} is empty"


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and a closed terminal unwind like Ctrl-C, so that the services are stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handled_by(interrupt):
        yield


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let what is inside finish; an interrupt that came meanwhile raises KeyboardInterrupt at its end."""
    held: list[int] = []
    with handled_by(lambda number, frame: held.append(number)):
        yield
    if held:
        raise KeyboardInterrupt


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def free_name(database: Database, wanted: str) -> str:
    """Return the name, or with the first free number behind it."""
    with database.transaction() as conn:
        used = {record.name for record in campaigns.list_all(conn)}
    candidates = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in candidates if name not in used)
