"""The processes of the bench, and the CPU they use: a private Postgres and Redis, schedulers, workers, rivals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.local.postgres import EmbeddedPostgres
from services.local.processes import spawn
from services.local.redis import EmbeddedRedis
from services.queue.app import make_app
from services.storage import schema

ROOT = Path(__file__).resolve().parents[1]
TICKS = os.sysconf("SC_CLK_TCK")


def wait_until(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.02) -> None:
    """Return when the condition holds; raise TimeoutError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(every)


def cpu_seconds(pid: int) -> float:
    """CPU of a process, of its children that ended, and of those that still run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(value) for value in fields[11:15]) / TICKS + sum(cpu_seconds(int(child)) for child in children)


@dataclass
class Place:
    """A database and a broker of the bench with the product's settings, and the programs that use them."""

    folder: Path
    database_url: str
    broker_url: str
    servers: Mapping[str, int]
    programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, module: str, *words: str, **environment: object) -> None:
        """Start ``python -m module words``; what it says goes to a file of its name."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TRINITY_")}
        ours = {
            "TRINITY_DATABASE_URL": self.database_url,
            "TRINITY_BROKER_URL": self.broker_url,
            "TRINITY_VAR_DIR": str(self.folder / "var"),
            "TRINITY_LOG_LEVEL": "warning",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        given = {key: str(value) for key, value in environment.items()}
        with (self.folder / f"{name}.txt").open("ab") as log:
            argv = [sys.executable, "-m", module, *words]
            self.programs[name] = spawn(argv, env={**kept, **ours, **given}, output=log, cwd=ROOT)

    def stop(self, name: str) -> None:
        process = self.programs.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        for name in list(self.programs):
            self.stop(name)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text()

    def wait_for_workers(self, count: int = 1, *, broker: int = 0, seconds: float = 60.0) -> None:
        """Return when this many Celery workers of a broker answer a ping."""
        app = make_app(self.broker(broker))
        try:
            wait_until(lambda: len(app.control.ping(timeout=0.3)) >= count, seconds, f"{count} workers to answer")
        finally:
            app.close()

    def broker(self, number: int) -> str:
        """Return the URL of one of the broker's databases, 0 being the product's."""
        return f"{self.broker_url.removesuffix('/0')}/{number}"

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by server and program."""
        pids = {**self.servers, **{name: process.pid for name, process in self.programs.items()}}
        return {name: cpu_seconds(pid) for name, pid in pids.items()}


def since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds between two readings, by what used them."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


@contextmanager
def place() -> Iterator[Place]:
    """Yield a fresh place and remove it afterwards."""
    # Short and world-readable: a socket path has a limit, and as root the server runs as another user.
    with tempfile.TemporaryDirectory(prefix="trinity-bench-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres, redis = EmbeddedPostgres(folder / "postgres"), EmbeddedRedis(folder / "redis")
        with postgres as database_url, redis as broker_url:
            schema.upgrade(database_url)
            pids = {"postgres": postgres.pid() or 0, "redis": redis.pid() or 0}
            made = Place(folder, database_url, broker_url, pids)
            try:
                yield made
            finally:
                made.stop_all()
