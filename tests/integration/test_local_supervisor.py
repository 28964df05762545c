"""The supervisor, as a process of its own with tiny children, and once with the real services."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from services.core.errors import PrerequisiteMissing
from services.local import endpoints
from services.local.children import Backoff
from services.local.endpoints import Endpoints
from services.local.processes import exists, naming, wait_until
from services.local.supervisor import ask_to_stop, status
from tests.support.signals import send

# ``up`` in small: children as JSON; ``ready`` is the name of a file in the working folder.
UP = """
import json, sys
from pathlib import Path
from services.core.errors import TrinityError
from services.local.postgres import EmbeddedPostgres
from services.local.redis import EmbeddedRedis
from services.local.supervisor import Child, Restart, Supervisor
var, order = Path(sys.argv[1]), json.loads(sys.argv[2])
def child(entry):
    ready = entry.pop("ready", None)
    test = {"ready": Path(entry["cwd"], ready).exists} if ready else {}
    return Child(**{**entry, "argv": tuple(entry["argv"]), "cwd": Path(entry["cwd"]),
                    "restart": Restart(entry.get("restart", "always"))}, **test)
services = [EmbeddedPostgres(var / "postgres"), EmbeddedRedis(var / "redis")] if order["services"] else []
def say(line):
    print(line, file=sys.stderr, flush=True)
def prepare(urls):
    say(f"prepared {urls.database_url} {urls.broker_url}")
    return [child(entry) for entry in order["children"]]
try:
    Supervisor(var, services, say=say).run(prepare, lambda: say("everything is up"))
except TrinityError as error:
    say(error)
    raise SystemExit(1)
"""
SLEEPER = "import signal; signal.pause()"
# A signal between a handler's installation and ``pause`` would be slept through; a blocked one waits.
DRAINER = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
open(sys.argv[1] + ".ready", "w").close()
signal.sigwait({signal.SIGTERM})
os.write(1, b"drained\\n")
with open("order", "a") as file:
    file.write(sys.argv[1] + "\\n")
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("stubborn.ready", "w").close()
while True:
    signal.pause()
"""
PARENT = (
    "import os, subprocess, sys, signal\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()', 'grandchild-' + os.getcwd()])\n"
    "open('parent.ready', 'w').close()\nsignal.pause()"
)
DEADLINE = 60.0


def program(name: str, code: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {"name": name, "argv": [sys.executable, "-c", code, name], "cwd": str(folder), **more}


class Up:
    """A running supervisor of a test."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.var = folder / "var"
        self.said_path = folder / "said"

    def said(self) -> str:
        return self.said_path.read_text()

    def wait_for(self, text: str) -> None:
        assert wait_until(lambda: text in self.said() or self.process.poll() is not None, DEADLINE)
        assert text in self.said(), self.said()

    def process_of(self, name: str) -> int:
        now = status(self.var)
        assert now is not None
        return now.processes[name]

    def wait_for_another(self, name: str, old: int) -> None:
        def replaced() -> bool:
            now = status(self.var)
            return now is not None and now.processes.get(name, old) != old

        assert wait_until(replaced, DEADLINE), self.said()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)


@contextmanager
def up(
    folder: Path, children: Sequence[Mapping[str, Any]], *, services: bool = False, await_ready: bool = True
) -> Iterator[Up]:
    order = json.dumps({"children": list(children), "services": services})
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([sys.executable, "-c", UP, str(folder / "var"), order], stderr=said)
    running = Up(process, folder)
    try:
        if await_ready:
            running.wait_for("everything is up")
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(DEADLINE)
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stops_stage_by_stage_in_reverse_order(tmp_path: Path, number: signal.Signals) -> None:
    children = [
        program("pool", DRAINER, tmp_path, stage=0, ready="pool.ready"),
        program("worker-1", DRAINER, tmp_path, stage=2, ready="worker-1.ready"),
        program("worker-2", DRAINER, tmp_path, stage=2, ready="worker-2.ready"),
        program("scheduler", DRAINER, tmp_path, stage=1, ready="scheduler.ready"),
    ]
    with up(tmp_path, children) as running:
        now = status(running.var)
        assert now is not None
        assert now.ready
        assert now.pid == running.process.pid
        assert set(now.processes) == {"pool", "scheduler", "worker-1", "worker-2"}
        assert running.stop(number) == 0
    order = (tmp_path / "order").read_text().split()
    assert set(order[:2]) == {"worker-1", "worker-2"}
    assert order[2:] == ["scheduler", "pool"]
    assert (running.var / "log" / "pool.log").read_text() == "drained\n"
    assert status(running.var) is None


def test_next_stage_waits_for_the_one_before(tmp_path: Path) -> None:
    first = (
        "import os, signal\nos.mkfifo('gate')\nopen('gate').read()\nopen('first.ready', 'w').close()\nsignal.pause()"
    )
    second = "import os, signal\nprint(os.path.exists('first.ready'), flush=True)\nsignal.pause()"
    children = [
        program("first", first, tmp_path, stage=0, ready="first.ready"),
        program("second", second, tmp_path, stage=1),
    ]
    with up(tmp_path, children, await_ready=False) as running:
        assert wait_until((tmp_path / "gate").exists, DEADLINE)
        (tmp_path / "gate").write_text("")
        running.wait_for("everything is up")
        log = running.var / "log" / "second.log"
        assert wait_until(lambda: log.exists() and log.read_text() != "", DEADLINE)
        assert log.read_text() == "True\n"


def test_crashed_child_is_started_again_and_said_so(tmp_path: Path) -> None:
    with up(tmp_path, [program("worker", DRAINER, tmp_path, ready="worker.ready")]) as running:
        first = running.process_of("worker")
        os.kill(first, signal.SIGKILL)
        running.wait_for_another("worker", first)
        running.wait_for("worker was ended by SIGKILL after")
        assert "starting it again in 0.5 s (log: " in running.said()
        second = running.process_of("worker")
        os.kill(second, signal.SIGKILL)
        running.wait_for_another("worker", second)
        running.wait_for("starting it again in 1.0 s")


def test_child_that_may_end_is_left_alone(tmp_path: Path) -> None:
    once = [program("once", "raise SystemExit(3)", tmp_path, restart="never"), program("other", SLEEPER, tmp_path)]
    with up(tmp_path, once) as running:
        running.wait_for("once ended with exit code 3")
        assert "again" not in running.said()
        assert running.stop() == 0


def test_child_that_never_gets_ready_ends_the_start_with_its_last_words(tmp_path: Path) -> None:
    children = [
        program("good", DRAINER, tmp_path, stage=0, ready="good.ready"),
        program("bad", "raise SystemExit('no such setting')", tmp_path, stage=1, ready="never"),
    ]
    with up(tmp_path, children, await_ready=False) as running:
        assert running.process.wait(DEADLINE) == 1
    assert "bad does not start: no such setting; see " in running.said()
    assert (tmp_path / "order").read_text() == "good\n"


def test_stubborn_child_is_ended_after_its_time(tmp_path: Path) -> None:
    children = [program("stubborn", STUBBORN, tmp_path, ready="stubborn.ready", stop_seconds=0.3)]
    with up(tmp_path, children) as running:
        pid = running.process_of("stubborn")
        assert running.stop() == 0
        assert "stubborn has not stopped by itself" in running.said()
        assert not exists(pid)


def test_second_signal_ends_children_by_force(tmp_path: Path) -> None:
    children = [program("stubborn", STUBBORN, tmp_path, ready="stubborn.ready", stop_seconds=600.0)]
    with up(tmp_path, children) as running:
        running.process.send_signal(signal.SIGINT)
        assert wait_until(lambda: not _ready(running.var), DEADLINE)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(DEADLINE) == 0


def _ready(var: Path) -> bool:
    now = status(var)
    return now is not None and now.ready


def test_stop_takes_grandchildren_along(tmp_path: Path) -> None:
    with up(tmp_path, [program("parent", PARENT, tmp_path, ready="parent.ready")]) as running:
        assert naming(f"grandchild-{tmp_path}")
        assert running.stop() == 0
    assert naming(f"grandchild-{tmp_path}") == []


def test_crash_takes_grandchildren_along(tmp_path: Path) -> None:
    with up(tmp_path, [program("parent", PARENT, tmp_path, ready="parent.ready")]) as running:
        before = naming(f"grandchild-{tmp_path}")
        first = running.process_of("parent")
        os.kill(first, signal.SIGKILL)
        running.wait_for_another("parent", first)
        assert not set(before) & set(naming(f"grandchild-{tmp_path}"))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_killed_supervisor_leaves_no_children_and_its_successor_no_strays(tmp_path: Path) -> None:
    children = [program("parent", PARENT, tmp_path, ready="parent.ready")]
    with up(tmp_path, children) as running:
        child = running.process_of("parent")
        strays = naming(f"grandchild-{tmp_path}")
        running.process.kill()
        assert wait_until(lambda: not exists(child), DEADLINE)
        assert status(running.var) is None
    with up(tmp_path, children):
        assert wait_until(lambda: not any(exists(pid) for pid in strays), DEADLINE)


def test_second_supervisor_names_the_first(tmp_path: Path) -> None:
    with up(tmp_path, []) as running:
        order = json.dumps({"children": [], "services": False})
        second = subprocess.run(
            [sys.executable, "-c", UP, str(running.var), order], capture_output=True, text=True, timeout=DEADLINE
        )
        assert second.returncode == 1
        assert f"is already being served by process {running.process.pid}; use that one" in second.stderr
        assert _ready(running.var)


def test_down_stops_it_and_says_whether_anybody_ran(tmp_path: Path) -> None:
    with up(tmp_path, [program("worker", DRAINER, tmp_path, ready="worker.ready")]) as running:
        assert ask_to_stop(running.var, DEADLINE)
        assert running.process.wait(DEADLINE) == 0
        assert not ask_to_stop(running.var)


def test_environment_and_ignored_signals_of_a_background_job(tmp_path: Path) -> None:
    code = "import os, signal\nprint(os.environ['GIVEN'], 'PATH' in os.environ, flush=True)\nsignal.pause()"
    nohup = "import os, signal, sys\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    order = json.dumps({"children": [program("worker", code, tmp_path, env={"GIVEN": "yes"})], "services": False})
    with (tmp_path / "said").open("wb") as said:
        command = [sys.executable, "-c", nohup, sys.executable, "-c", UP, str(tmp_path / "var"), order]
        process = subprocess.Popen(command, stderr=said)
    running = Up(process, tmp_path)
    try:
        running.wait_for("everything is up")
        log = running.var / "log" / "worker.log"
        assert wait_until(lambda: log.exists() and log.read_text() != "", DEADLINE)
        assert log.read_text().startswith("yes True")
        process.send_signal(signal.SIGHUP)
        # Whoever had been stopped by it would not start the worker again.
        worker = running.process_of("worker")
        os.kill(worker, signal.SIGKILL)
        running.wait_for_another("worker", worker)
        assert running.stop() == 0
    finally:
        process.kill()
        process.wait()


def test_real_services_are_published_healed_and_withdrawn(tmp_path: Path) -> None:
    with up(tmp_path, [program("worker", DRAINER, tmp_path, ready="worker.ready")], services=True) as running:
        urls = endpoints.read(running.var)
        assert urls.database_url is not None
        assert urls.broker_url is not None
        assert f"prepared {urls.database_url} {urls.broker_url}" in running.said()
        assert stat.S_IMODE((running.var / "run" / "services.json").stat().st_mode) == 0o600
        for name in ("Postgres", "Redis"):
            process = running.process_of(name)
            os.kill(process, signal.SIGKILL)
            running.wait_for_another(name, process)
            running.wait_for(f"{name} runs again")
        with psycopg.connect(urls.database_url) as database:
            row = database.execute("SELECT 1").fetchone()
            assert row == (1,)
        with redis.Redis.from_url(urls.broker_url) as broker:
            assert broker.ping()
        postgres, server = running.process_of("Postgres"), running.process_of("Redis")
        assert running.stop() == 0
        assert not exists(postgres)
        assert not exists(server)
        with pytest.raises(PrerequisiteMissing, match="are running for"):
            endpoints.read(running.var)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_everything_killed_at_once_comes_back(tmp_path: Path) -> None:
    with up(tmp_path, [program("worker", SLEEPER, tmp_path)], services=True) as running:
        before = endpoints.read(running.var)
        assert before.database_url is not None
        with psycopg.connect(before.database_url) as database:
            database.execute("CREATE TABLE kept AS SELECT 37 AS number")
        now = status(running.var)
        assert now is not None
        send([running.process.pid, *now.processes.values()])
        running.process.wait()
        with pytest.raises(PrerequisiteMissing, match="went down without saying so"):
            endpoints.read(running.var)
    with up(tmp_path, [], services=True) as again:
        assert endpoints.read(again.var) == before
        with psycopg.connect(before.database_url) as database:
            assert database.execute("SELECT number FROM kept").fetchone() == (37,)


def test_endpoints_of_a_reused_process_number_are_stale(tmp_path: Path) -> None:
    path = endpoints.write(tmp_path, Endpoints("postgresql://x", None))
    assert endpoints.read(tmp_path) == Endpoints("postgresql://x", None)
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {"birth": "1"}))
    with pytest.raises(PrerequisiteMissing, match="went down"):
        endpoints.read(tmp_path)
    endpoints.forget(tmp_path)
    endpoints.forget(tmp_path)


def test_back_off_doubles_up_to_a_bound_and_forgets() -> None:
    backoff = Backoff()
    assert [backoff.delay(1.0) for _ in range(9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert backoff.delay(120.0) == 0.5
    assert backoff.delay(1.0) == 1.0
