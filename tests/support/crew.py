"""Schedulers and workers as processes of their own on given services, for tests that treat them badly.

Workers are the product's but for the language model and the pool, see ``stub_worker``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from services.local import processes
from tests.support.product import ROOT
from tests.support.waiting import wait_for

# Everything that recovers does so within seconds.
FAST = {
    "TRINITY_LEASE_SECONDS": "3",
    "TRINITY_HEARTBEAT_SECONDS": "1",
    "TRINITY_POLL_SECONDS": "0.1",
    "TRINITY_REPUBLISH_SECONDS": "3",
    "TRINITY_DRAIN_SECONDS": "5",
    "OMP_NUM_THREADS": "1",
}


@dataclass
class Member:
    """One process and what it said.

    Attributes:
        starts: how often it was started.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log_path: Path
    starts: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = processes.spawn(self.argv, env=self.environment, output=log, cwd=ROOT)
        self.starts += 1

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def lives(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.lives():
            self.process.send_signal(number)

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(timeout=10)

    def stop(self, seconds: float = 20.0) -> int:
        """End by SIGTERM; return the exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def said(self, words: str, seconds: float = 20.0) -> None:
        """Wait until the log holds these words."""
        wait_for(lambda: words in self.log, seconds=seconds, what=f"{words!r} in {self.log_path.name}")


@dataclass
class Crew:
    """All processes of one test; none outlives the block.

    Args:
        folder: for logs and var/.
        database_url, broker_url: where they work.
        settings: TRINITY_ variables of all of them.
    """

    folder: Path
    database_url: str
    broker_url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for member in self.members:
            member.thaw()
            member.kill()
            if error is not None:
                error.add_note(f"--- {member.log_path.name}\n{member.log[-3000:]}")

    def scheduler(self, **settings: str) -> Member:
        return self.start("scheduler", ("-m", "scheduler"), settings)

    def worker(self, *options: str, **settings: str) -> Member:
        """Start a worker with stand-ins for models; ``options`` are those of ``stub_worker``."""
        return self.start("worker", ("-m", "tests.support.stub_worker", *options), settings)

    def start(self, name: str, words: tuple[str, ...], settings: Mapping[str, str]) -> Member:
        path = self.folder / f"{name}-{len(self.members)}.log"
        member = Member((sys.executable, *words), self.environment(settings), path)
        self.members.append(member)
        return member

    def revive(self) -> None:
        """Start the members again that ended, as a supervisor does."""
        for member in self.members:
            if not member.lives():
                member.start()

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRINITY_")}
        urls = {"TRINITY_DATABASE_URL": self.database_url, "TRINITY_BROKER_URL": self.broker_url}
        return kept | FAST | urls | {"TRINITY_VAR_DIR": str(self.folder / "var")} | dict(self.settings) | dict(settings)
