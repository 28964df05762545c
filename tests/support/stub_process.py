"""Starting stub workers as processes, and sending them episodes without a scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.app import make_app
from services.queue.publish import Delivery, Publisher

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class StubWorker:
    """One stub worker process; what it says goes to ``log``."""

    database_url: str
    broker_url: str
    log: Path
    options: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StubWorker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def start(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRINITY_")}
        urls = {"TRINITY_DATABASE_URL": self.database_url, "TRINITY_BROKER_URL": self.broker_url}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.stub_worker", *self.options],
                cwd=ROOT,
                env=kept | urls | self.settings,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Return the exit status; fail if it takes longer."""
        assert self.process is not None
        return self.process.wait(seconds)

    def said(self) -> str:
        return self.log.read_text()


def send(broker_url: str, episodes: Iterable[EpisodeId]) -> None:
    """Tell the workers about episodes."""
    publisher = Publisher(make_app(broker_url))
    publisher.send([Delivery(episode, Purpose.TRAINING, f"episode {episode}") for episode in episodes])
    publisher.close()
