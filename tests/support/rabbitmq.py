"""A private RabbitMQ for the test session: a node, ports, a cookie and data of its own, on loopback.

TRINITY_TEST_AMQP_URL selects an existing server. Without it the one of the Debian package is started. It is installed
first where that is allowed (root, apt-get, and CI or TRINITY_TEST_RABBITMQ set); otherwise the tests are skipped.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.core.errors import TrinityError
from services.local import processes
from services.queue.app import Celery, make_app
from services.queue.publish import require_broker
from tests.support.signals import send
from tests.support.waiting import wait_for

# Debian's own wrapper changes to another account and to the machine's node; this is the script behind it.
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "rabbitmq-server")
INSTALL_SECONDS = 180
READY_SECONDS = 90
USER = "trinity"
CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
default_user = {user}
default_pass = {password}
disk_free_limit.absolute = 50MB
log.console = false
log.file.level = warning
{more}
"""


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, all different."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@dataclass
class RabbitServer:
    """One node. ``more`` is added to its configuration; data survives ``kill`` and ``start``."""

    home: Path
    more: str = ""
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    ports: list[int] = field(default_factory=lambda: free_ports(3))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{self.password}@127.0.0.1:{self.ports[0]}//"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> str:
        """Start the node and wait until it answers; return its URL."""
        self.home.mkdir(parents=True, exist_ok=True)
        cookie = self.home / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(secrets.token_hex(16))
            cookie.chmod(0o400)
        (self.home / "plugins").write_text("[].\n")
        (self.home / "rabbitmq.conf").write_text(
            CONFIGURATION.format(port=self.ports[0], user=USER, password=self.password, more=self.more)
        )
        with (self.home / "start.log").open("ab") as log:
            self.process = processes.spawn([str(SCRIPT)], env=self._environment(), output=log, cwd=self.home)
        app = make_app(self.url)
        wait_for(lambda: self._answers(app), seconds=READY_SECONDS, what="RabbitMQ", pause=0.2)
        app.close()
        return self.url

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the node, by default at once."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)
            self.process = None

    def stop(self) -> None:
        """End the node and the port mapper that it left behind."""
        self.kill()
        send(processes.started_with("HOME", str(self.home)))

    def _answers(self, app: Celery) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.home / "start.log").read_text()
        try:
            require_broker(app, timeout_seconds=1.0)
        except TrinityError:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        home, (port, distribution, mapper) = self.home, self.ports
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"trinity-test-{port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # One scheduler thread starts the node in two thirds of the time on a small machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
            # The virtual machine replaces the shell, so that signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }


def missing() -> str | None:
    """Return why no node can be started here; None when one can, be it after an installation."""
    if SCRIPT.exists():
        return None
    wanted = bool(os.environ.get("CI") or os.environ.get("TRINITY_TEST_RABBITMQ"))
    if not wanted:
        return "no RabbitMQ here; TRINITY_TEST_RABBITMQ=1 installs it, TRINITY_TEST_AMQP_URL selects one"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "RabbitMQ is not installed, and only root with apt-get can install it"
    return install()


def install() -> str | None:
    """Install the Debian package; return why that failed."""
    # At this run level the package does not start the machine's own node.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    deadline = time.monotonic() + INSTALL_SECONDS
    for command in (INSTALL, ("apt-get", "update"), INSTALL):
        left = max(1.0, deadline - time.monotonic())
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return f"RabbitMQ was not installed within {INSTALL_SECONDS} s"
        if SCRIPT.exists():
            return None
    return f"RabbitMQ could not be installed: {done.stderr.strip().splitlines()[-1:]}"


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A node of this session that tests may restart."""
    if reason := missing():
        pytest.skip(reason)
    server = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def amqp_server(request: pytest.FixtureRequest) -> str:
    """The URL of TRINITY_TEST_AMQP_URL, or of a node started for this session."""
    if given := os.environ.get("TRINITY_TEST_AMQP_URL"):
        return given
    server: RabbitServer = request.getfixturevalue("rabbitmq")
    return server.url
