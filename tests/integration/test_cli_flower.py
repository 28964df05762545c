"""Flower as the product starts it: on our queues, behind a password, changing nothing."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.app import make_app
from services.queue.publish import Delivery, Publisher
from tests.support.stub_process import StubWorker
from tests.support.waiting import wait_for

pytest.importorskip("flower")

LABEL = "small g3 c17 r5"


@dataclass(frozen=True)
class RunningFlower:
    url: str
    password: str
    process: subprocess.Popen[bytes]

    def status(self, path: str, *, password: str | None = None, method: str = "GET") -> int:
        try:
            self.open(path, password=password, method=method)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        return 200

    def open(self, path: str, *, password: str | None = None, method: str = "GET") -> str:
        request = urllib.request.Request(self.url + path, method=method, data=b"" if method == "POST" else None)
        if password is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(f"trinity:{password}".encode()).decode())
        with urllib.request.urlopen(request, timeout=20) as response:
            return str(response.read().decode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def running(tmp_path: Path, broker_url: str) -> Iterator[RunningFlower]:
    port = free_port()
    environment = {
        **os.environ,
        "TRINITY_VAR_DIR": str(tmp_path / "var"),
        "TRINITY_BROKER_URL": broker_url,
        "TRINITY_FLOWER_PORT": str(port),
        # Were it ever obeyed, the API would be open.
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    process = subprocess.Popen([sys.executable, "-m", "services.cli", "flower"], env=environment)
    password_file = tmp_path / "var" / "run" / "flower.password"
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(url), seconds=60, what="Flower")
        assert password_file.stat().st_mode & 0o777 == 0o600
        yield RunningFlower(url, password_file.read_text().strip(), process)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthcheck", timeout=5):
            return True
    except OSError:
        return False


def task_labels(flower: RunningFlower) -> list[str]:
    tasks = json.loads(flower.open("/api/tasks", password=flower.password))
    return [str(task["kwargs"]) for task in tasks.values()]


def test_flower_asks_for_its_password_and_shows_labelled_tasks_and_queues(
    running: RunningFlower, broker_url: str, database_url: str, tmp_path: Path
) -> None:
    for path in ("/", "/tasks", "/broker", "/metrics", "/api/workers", "/api/tasks", "/api/queues/length"):
        assert running.status(path) == 401, path
        assert running.status(path, password="wrong") == 401, path
        assert running.status(path, password=running.password) == 200, path
    app = make_app(broker_url)
    publisher = Publisher(app)

    def published() -> bool:
        publisher.send([Delivery(EpisodeId(7), Purpose.TRAINING, LABEL)])
        return LABEL in task_labels(running)

    # Flower begins to listen for events some time after it answers; what workers did before it never sees.
    with StubWorker(database_url, broker_url, tmp_path / "worker.txt", ("--slots", "2")):
        wait_for(published, seconds=60, what="the labelled task in Flower", pause=0.5)

    def waiting() -> bool:
        """The worker takes what comes while it ends; the message that comes after that stays."""
        publisher.send([Delivery(EpisodeId(8), Purpose.TRAINING, LABEL)])
        lengths = json.loads(running.open("/api/queues/length", password=running.password))["active_queues"]
        told = {entry["name"]: entry["messages"] > 0 for entry in lengths}
        return told == {"episodes": True, "validation": False}

    wait_for(waiting, seconds=60, what="a message in the one queue that Flower shows as waiting", pause=0.5)
    publisher.close()
    for path in ("/api/worker/shutdown/w1", "/api/task/revoke/1", "/api/task/send-task/trinity.episode.run"):
        assert running.status(path, password=running.password, method="POST") == 403, path
    command_line = Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
    assert running.password.encode() not in command_line
    assert b"redis://" not in command_line
