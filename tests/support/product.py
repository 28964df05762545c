"""The whole product as separate processes, in a folder of its own, driven through manage.py like a person would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.local import endpoints, supervisor
from services.storage.engine import Database
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
FLOWER_PASSWORD = "only for this test"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Product:
    """``folder`` receives var/, pools/ and whatever the test writes."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    pool_port: int = field(default_factory=free_port)
    flower_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def var(self) -> Path:
        return self.folder / "var"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRINITY_")}
        return kept | {
            "TRINITY_VAR_DIR": str(self.var),
            "TRINITY_LOCAL_POOL_DIR": str(self.folder / "pools"),
            "TRINITY_LOCAL_POOL_URL": f"http://127.0.0.1:{self.pool_port}",
            "TRINITY_FLOWER_PORT": str(self.flower_port),
            "TRINITY_FLOWER_PASSWORD": FLOWER_PASSWORD,
            **self.settings,
        }

    def up(self) -> None:
        """Start everything and wait until it is ready; what it says goes to up.txt."""
        with (self.folder / "up.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"], cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "up.txt").read_text()
            running = supervisor.status(self.var)
            return running is not None and running.ready

        wait_for(ready, seconds=120, what="manage.py up to be ready")

    def run(self, *words: str, expect: int = 0) -> str:
        """Run ``manage.py words`` and return its stdout."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == expect, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def show(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def pids(self) -> dict[str, int]:
        running = supervisor.status(self.var)
        return {} if running is None else dict(running.processes)

    def kill(self, name: str) -> None:
        """Kill a child at once (SIGKILL)."""
        os.kill(self.pids()[name], signal.SIGKILL)

    def kill_everything(self) -> None:
        """Kill the supervisor; the kernel takes its children with it. Wait until all are gone."""
        assert self.process is not None
        pids = [pid for pid in self.pids().values() if pid]
        self.process.kill()
        self.process.wait()
        wait_for(
            lambda: not any(alive(pid) for pid in pids), seconds=30, what="the children of a killed supervisor to die"
        )

    def database(self) -> Database:
        url = endpoints.read(self.var).database_url
        assert url is not None
        return Database(url, application_name="acceptance test", pool_size=1)

    def flower(self, path: str) -> Any:
        """Get a page of Flower's API with the password."""
        passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
        url = f"http://127.0.0.1:{self.flower_port}"
        passwords.add_password(None, url, "trinity", FLOWER_PASSWORD, is_authenticated=True)
        opener = urllib.request.build_opener(
            urllib.request.HTTPBasicAuthHandler(passwords), urllib.request.ProxyHandler({})
        )
        with opener.open(f"{url}{path}", timeout=10) as response:
            return json.load(response)

    def stop(self) -> None:
        """Stop with ``manage.py down`` if anything runs; kill what will not stop."""
        if self.process is None or self.process.poll() is not None:
            return
        self.run("down")
        assert self.process.wait(timeout=30) == 0


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
