"""What ``manage.py up`` starts, in which order, and what it tells when all of it runs."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.error import URLError

from services.cli import connections, passwords, render
from services.config.settings import Settings
from services.local.endpoints import Endpoints, missing
from services.local.postgres import EmbeddedPostgres
from services.local.redis import EmbeddedRedis
from services.local.service import Service
from services.local.supervisor import Child, Supervisor

# After its drain a worker still has to close; longer than this it hangs.
CLOSING_SECONDS = 5.0


@dataclass(frozen=True)
class Plan:
    """Which processes ``up`` starts beside the scheduler."""

    workers: int
    flower: bool
    pool: bool


def run(settings: Settings, plan: Plan) -> None:
    """Start everything, tell what runs, and watch until told to stop."""
    settings.var_dir.mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(settings.var_dir, embedded_services(settings), say=render.say)
    supervisor.run(lambda endpoints: prepare(settings, plan, endpoints), lambda: announce(settings, plan))


def embedded_services(settings: Settings) -> list[Service]:
    """Return the services that no URL points to."""
    services: list[Service] = []
    logs = settings.var_dir / "log"
    if settings.database_url is None:
        services.append(EmbeddedPostgres(settings.var_dir / "postgres", log_path=logs / "postgres.log"))
    if settings.broker_url is None:
        services.append(EmbeddedRedis(settings.var_dir / "redis", log_path=logs / "redis.log"))
    return services


def prepare(settings: Settings, plan: Plan, endpoints: Endpoints) -> list[Child]:
    """Bring the database to the schema of this code, then return the processes to start."""
    from services.storage import schema

    schema.upgrade(settings.database_url or endpoints.database_url or missing("database"))
    shared = environment(settings)
    children = [Child("scheduler", (sys.executable, "-m", "scheduler"), env=shared)]
    if plan.pool:
        children.append(pool_child(settings, shared))
    for number in range(plan.workers):
        children.append(worker_child(number, shared, settings.drain_seconds + CLOSING_SECONDS))
    if plan.flower:
        children.append(flower_child(settings, shared))
    return children


def worker_child(number: int, shared: dict[str, str], stop_seconds: float) -> Child:
    # A second thread per matrix product slows every other process of the machine down more than it helps this one.
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    argv = (sys.executable, "-m", "worker")
    return Child(f"worker-{number + 1}", argv, env=shared | one_thread, stage=1, stop_seconds=stop_seconds)


def pool_child(settings: Settings, shared: dict[str, str]) -> Child:
    argv = (sys.executable, "-m", "services.cli", "pool", "serve")
    return Child("pool", argv, env=shared, ready=answers(f"{settings.local_pool_url.rstrip('/')}/healthz"))


def flower_child(settings: Settings, shared: dict[str, str]) -> Child:
    passwords.flower_password(settings)
    argv = (sys.executable, "-m", "services.cli", "flower")
    return Child("flower", argv, env=shared, stage=1, ready=answers(f"{flower_url(settings)}/healthcheck"))


def flower_url(settings: Settings) -> str:
    host = "127.0.0.1" if settings.flower_host in ("", "0.0.0.0", "::") else settings.flower_host  # noqa: S104
    return f"http://{host}:{settings.flower_port}"


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables through which a child process finds what this one knows."""
    return {
        "TRINITY_DATABASE_URL": connections.database_url(settings),
        "TRINITY_BROKER_URL": connections.broker_url(settings),
        "TRINITY_VAR_DIR": str(settings.var_dir.resolve()),
    }


def answers(url: str) -> Callable[[], bool]:
    """Return a check whether ``url`` answers with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def check() -> bool:
        try:
            with opener.open(url, timeout=2.0) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    return check


def announce(settings: Settings, plan: Plan) -> None:
    """Tell what runs and where to look; the password itself is never printed."""
    for line in render.table_lines(("what", "where"), summary(settings, plan)):
        render.say(f"  {line}")
    render.say("Ctrl-C stops everything.")


def summary(settings: Settings, plan: Plan) -> Sequence[tuple[str, str]]:
    rows = [
        ("database", "TRINITY_DATABASE_URL" if settings.database_url else str(settings.var_dir / "postgres")),
        ("broker", "TRINITY_BROKER_URL" if settings.broker_url else str(settings.var_dir / "redis")),
        ("scheduler", "1 process"),
        ("workers", f"{plan.workers} x {settings.worker_slots} episodes at a time"),
        ("logs", str(settings.var_dir / "log")),
    ]
    if plan.pool:
        rows.append(("local pools", settings.local_pool_url))
    if plan.flower:
        given = settings.flower_password is not None
        lies = "TRINITY_FLOWER_PASSWORD" if given else str(passwords.password_file(settings))
        rows.append(("Flower", f"{flower_url(settings)}, user {settings.flower_user}, password in {lies}"))
    return rows
