"""A private Redis for one folder: loopback, a password, an append-only file, no eviction.

Layout of the folder: ``appendonly.aof``, ``password``, ``port``, ``lock`` and the configuration.
"""

from __future__ import annotations

import random
import signal
import socket
from pathlib import Path
from types import TracebackType

from services.core.errors import PrerequisiteMissing
from services.local import binaries
from services.local.processes import wait_until
from services.local.service import ServerProcess, make_secret

HOST = "127.0.0.1"
# Below the range from which outgoing connections take theirs, so that a port stays free while the server restarts.
PORTS = range(20_000, 30_000)
PORT_TRIES = 50
READY_SECONDS = 60.0
# The file only speeds up recovery (everything in it can be published again), so one second of it may be lost, but a
# full memory must refuse work rather than forget some.
CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
appendonly yes
appendfsync everysec
aof-load-truncated yes
save ""
maxmemory-policy noeviction
proc-title-template "{{title}} {{listen-addr}} name={token}"
"""


class EmbeddedRedis:
    """Redis from the wheel, serving ``home``.

    Start it from a thread that outlives it: the kernel stops the server when that thread ends. An append-only file that
    Redis cannot read is set aside, not fatal.

    Args:
        home: its folder, made at the first start.
        log_path: its log; ``home/redis.log`` by default.
    """

    name = "Redis"
    endpoint = "broker_url"

    def __init__(self, home: Path, *, log_path: Path | None = None) -> None:
        self._home = home.resolve()
        self._log_path = log_path.resolve() if log_path else self._home / "redis.log"
        self._server = ServerProcess(self._home, self.name, self._log_path, ((signal.SIGTERM, 20.0),))
        self._port: int | None = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def pid(self) -> int | None:
        """The server, None when it does not run."""
        return self._server.pid

    def start(self) -> str:
        """Starts it unless it runs; ``redis://:PASSWORD@127.0.0.1:PORT/0``.

        The port is that of the last time if it is free. Once this object has returned a URL, it keeps to it.

        Raises:
            PrerequisiteMissing: the wheel is not installed, the folder is in use, the port was taken by another program
                while the server was down, or the server ended at once.
        """
        if self._server.pid is None:
            self._server.claim()
            try:
                self._start()
            except BaseException:
                self.stop()
                raise
        return f"redis://:{self._password()}@{HOST}:{self._port}/0"

    def stop(self) -> None:
        """Writes the append-only file out and ends."""
        self._server.stop()

    def _start(self) -> None:
        make_secret(self._home / "password")
        self._port = self._port or self._free_port()
        if not _is_free(self._port):
            raise PrerequisiteMissing(f"port {self._port} of the private Redis is taken", "end the program that has it")
        (self._home / "port").write_text(f"{self._port}\n")
        self._launch()
        log = self._home / "appendonly.aof"
        if not self._becomes_ready() and self._server.pid is None and log.exists() and log.stat().st_size > 0:
            log.replace(log.with_suffix(".unreadable"))
            self._launch()
            self._becomes_ready()
        if not self._is_ready():
            raise self._server.failure(READY_SECONDS)

    def _launch(self) -> None:
        path = self._home / f"{self._server.token}.conf"
        path.touch(mode=0o600)
        path.write_text(
            CONFIGURATION.format(host=HOST, port=self._port, password=self._password(), token=self._server.token)
        )
        self._server.launch([str(binaries.redis_server()), path.name])

    def _becomes_ready(self) -> bool:
        wait_until(lambda: self._is_ready() or self._server.pid is None, READY_SECONDS)
        return self._is_ready()

    def _is_ready(self) -> bool:
        if self._server.pid is None or self._port is None:
            return False
        try:
            with socket.create_connection((HOST, self._port), timeout=5.0) as connection:
                connection.sendall(f"AUTH {self._password()}\r\nPING\r\nQUIT\r\n".encode())
                with connection.makefile("rb") as reply:
                    return reply.read().splitlines()[:2] == [b"+OK", b"+PONG"]
        except OSError:
            return False

    def _password(self) -> str:
        return (self._home / "password").read_text().strip()

    def _free_port(self) -> int:
        kept = self._home / "port"
        written = kept.read_text().strip() if kept.exists() else ""
        # Not for secrecy: it spreads several checkouts of one machine apart.
        drawn = random.SystemRandom().sample(PORTS, PORT_TRIES)
        for port in ([int(written)] if written.isdigit() else []) + drawn:
            if _is_free(port):
                return port
        raise PrerequisiteMissing(
            f"{PORT_TRIES} ports between {PORTS.start} and {PORTS.stop} are all taken", "set TRINITY_BROKER_URL"
        )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
