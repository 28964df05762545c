"""The product as real processes, each started again at once when it ends, and within reach of the nemesis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from services.core.errors import TrinityError
from services.local.postgres import EmbeddedPostgres
from services.local.processes import spawn
from services.local.redis import EmbeddedRedis
from services.local.service import Service
from services.storage import schema
from services.storage.engine import Database
from tests.chaos.clock import SteppedClock
from tests.chaos.nursery import Nursery
from tests.support.signals import send
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
LOOK_SECONDS = 0.05
# A process that ended by itself, because something it needs is away, is not started in a busy loop.
PAUSE_AFTER_OWN_END = 0.5
SETTINGS: Mapping[str, str] = {
    "TRINITY_LEASE_SECONDS": "6",
    "TRINITY_HEARTBEAT_SECONDS": "1.5",
    "TRINITY_REPUBLISH_SECONDS": "5",
    "TRINITY_WORKER_SLOTS": "4",
    "TRINITY_DISPATCH_WINDOW": "24",
}


class Life(Protocol):
    """One process from its start to its end."""

    @property
    def pid(self) -> int: ...

    def ended(self) -> int | None:
        """Return its exit code, negative for a signal; None while it lives."""


@dataclass(frozen=True)
class Program(Life):
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> int | None:
        return self.process.poll()


@dataclass(frozen=True)
class End:
    """How a process ended; ``signals`` are those it had been sent from here."""

    at: float
    name: str
    pid: int
    code: int
    signals: tuple[signal.Signals, ...]

    @property
    def own(self) -> bool:
        """Whether nobody here asked for it."""
        return not self.signals


@dataclass
class Seat:
    """A place that is always filled by one process: a scheduler, or a worker."""

    name: str
    kind: str
    start: Callable[[], Life]
    life: Life | None = None
    since: float = 0.0
    frozen: bool = False
    due: float = 0.0
    signals: list[signal.Signals] = field(default_factory=list)

    def lived(self) -> float:
        return time.monotonic() - self.since if self.life is not None else 0.0

    def connected(self) -> bool:
        """Return whether the process has begun to speak to database or broker."""
        try:
            held = [os.readlink(entry) for entry in Path(f"/proc/{self.life.pid}/fd").iterdir()] if self.life else []
        except OSError:
            return False
        return any(link.startswith("socket:") for link in held)

    def send(self, number: signal.Signals) -> int | None:
        """Signal the process and return its pid, None when there is none."""
        life = self.life
        if life is None or life.ended() is not None:
            return None
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            self.signals.append(number)
        try:
            os.kill(life.pid, number)
        except ProcessLookupError:
            return None
        return life.pid


@dataclass
class Server:
    """Postgres or Redis; ``away`` keeps it down while set."""

    kind: str
    service: Service
    url: str | None = None
    ready: bool = False
    away: threading.Event = field(default_factory=threading.Event)
    troubles: list[str] = field(default_factory=list)

    def kill(self) -> int | None:
        """Kill its main process (SIGKILL) and return its pid, None when it does not run."""
        pid = self.service.pid()
        if pid is not None:
            send([pid])
        return pid


class System:
    """Context manager: Postgres and Redis as in production, schedulers and workers.

    Args:
        folder: receives var/ and logs; readable by everybody, since Postgres does not run as root.
        nursery: forks the workers; without it each is a ``python -m worker``.
        schedulers, workers: how many.
        settings: TRINITY_ variables beside those of ``SETTINGS``.
        clock: of the first scheduler and the first worker.
        late_nursery: forks the first worker; it has that clock itself.
        worker: the command of the workers that are not forked.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nursery: Nursery | None = None,
        schedulers: int = 2,
        workers: int = 3,
        settings: Mapping[str, str] | None = None,
        clock: SteppedClock | None = None,
        late_nursery: Nursery | None = None,
        worker: Sequence[str] = ("-m", "worker"),
    ) -> None:
        self.folder = folder
        self.var = folder / "var"
        self.logs = folder / "log"
        self.clock = clock
        self.postgres = Server("postgres", EmbeddedPostgres(self.var / "postgres", log_path=self.logs / "postgres.log"))
        self.redis = Server("redis", EmbeddedRedis(self.var / "redis", log_path=self.logs / "redis.log"))
        self.ends: list[End] = []
        self.seats: list[Seat] = []
        self._settings = {**SETTINGS, **(settings or {})}
        self._nursery = nursery
        self._worker = worker
        self._late_nursery = late_nursery
        self._stopping = threading.Event()
        self._stopping_servers = threading.Event()
        self._threads: list[threading.Thread] = []
        self._counts = (schedulers, workers)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRINITY_")}
        assert self.postgres.url is not None
        assert self.redis.url is not None
        return kept | self._settings | {
            "TRINITY_VAR_DIR": str(self.var),
            "TRINITY_DATABASE_URL": self.postgres.url,
            "TRINITY_BROKER_URL": self.redis.url,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }  # fmt: skip

    @contextmanager
    def database(self, pool_size: int = 1) -> Iterator[Database]:
        assert self.postgres.url is not None
        database = Database(self.postgres.url, application_name="chaos", pool_size=pool_size)
        try:
            yield database
        finally:
            database.close()

    def of(self, kind: str) -> list[Seat]:
        return [seat for seat in self.seats if seat.kind == kind]

    def __enter__(self) -> System:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for server in (self.postgres, self.redis):
            self._thread(self._keep_server, server)
        try:
            wait_for(lambda: self.postgres.url and self.redis.url, seconds=120, what="Postgres and Redis")
            schema.upgrade(str(self.postgres.url))
            self._fill_seats()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads[2:]:
            thread.join()
        self._stopping_servers.set()
        for thread in self._threads:
            thread.join()

    def _fill_seats(self) -> None:
        schedulers, workers = self._counts
        for number in range(schedulers):
            self._seat("scheduler", number, ("-m", "scheduler"))
        for number in range(workers):
            self._seat("worker", number, self._worker if self._nursery is None else None)
        self._thread(self._keep_seats)

    def _seat(self, kind: str, number: int, command: Sequence[str] | None) -> None:
        name = f"{kind}-{number + 1}"
        late = self.clock is not None and number == 0
        environment = {**self.environment, **(self.clock.environment if self.clock and late else {})}
        nursery = self._late_nursery if late else self._nursery
        log = self.logs / f"{name}.log"

        def start() -> Life:
            if command is None:
                assert nursery is not None
                return nursery.start(environment, log)
            with log.open("ab") as output:
                return Program(spawn([sys.executable, *command], env=environment, output=output, cwd=ROOT))

        self.seats.append(Seat(name, kind, start))

    def _thread(self, work: Callable[..., None], *arguments: object) -> None:
        # What a thread starts, the kernel ends with it; hence each lives until the system stops.
        thread = threading.Thread(target=work, args=arguments, name="keeper", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep_server(self, server: Server) -> None:
        while not self._stopping_servers.wait(LOOK_SECONDS):
            if server.service.pid() is not None or server.away.is_set():
                continue
            server.ready = False
            try:
                server.url = server.service.start()
                server.ready = True
            except TrinityError as error:
                server.troubles.append(str(error))
                self._stopping_servers.wait(LOOK_SECONDS)
        server.service.stop()

    def _keep_seats(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for seat in self.seats:
                self._keep(seat)
        self._empty_seats()

    def _keep(self, seat: Seat) -> None:
        life = seat.life
        if life is not None and (code := life.ended()) is not None:
            end = End(time.time(), seat.name, life.pid, code, tuple(seat.signals))
            self.ends.append(end)
            seat.life = None
            seat.frozen = False
            seat.due = time.monotonic() + (PAUSE_AFTER_OWN_END if end.own else 0.0)
        if seat.life is None and time.monotonic() >= seat.due:
            seat.signals.clear()
            seat.since = time.monotonic()
            seat.life = seat.start()

    def _empty_seats(self) -> None:
        for number, seconds in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0)):
            for seat in self.seats:
                seat.send(number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and any(seat.life and seat.life.ended() is None for seat in self.seats):
                time.sleep(LOOK_SECONDS)
