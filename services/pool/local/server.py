"""One HTTP server for all local pools: ``/POOL/v1/chat/completions``, ``/POOL/v1/models`` and ``/healthz``."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from services.core.errors import PrerequisiteMissing
from services.core.local_pool import LocalPool, RecordingPool, SimulatedPool
from services.pool.local.handler import Offer, PoolHandler, Served
from services.pool.local.recorded import RecordedCalls
from services.pool.local.replay import Replay
from services.pool.local.simulated import Simulated
from services.pool.local.weather import Weather
from services.pool.local.wire import ServedPool


@dataclass(frozen=True)
class UnavailablePool:
    """A pool whose file is wrong: every request to it is answered with 503 and the reason."""

    name: str
    reason: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[PoolHandler]) -> None:
        self._connections: set[Any] = set()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # The base class asks the name service for the host's full name, which can take seconds.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients that time out leave in the middle of a reply; that is their business.
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def end_connections(self) -> None:
        for connection in tuple(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._connections.discard(connection)


class LocalPoolServer:
    """Serves pools until stopped; also a context manager.

    Args:
        pools: what to serve, names unique.
        host: address to listen at; the server checks no key, so anything but loopback is for closed networks.
        port: 0 takes a free one.
        find: looks for a pool that is asked for and not served yet.
    """

    def __init__(
        self,
        pools: Sequence[LocalPool | UnavailablePool],
        host: str = "127.0.0.1",
        port: int = 8790,
        find: Callable[[str], LocalPool | UnavailablePool | None] = lambda name: None,
    ) -> None:
        def look(name: str) -> Served | str | None:
            found = find(name)
            return None if found is None else _offered(found)

        self._offer = Offer({pool.name: _offered(pool) for pool in pools}, look)
        self._address = (host, port)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Listen, and return the address as ``http://HOST:PORT``.

        Raises:
            PrerequisiteMissing: the address cannot be listened at.
        """
        host, port = self._address
        try:
            self._server = _Server(self._address, type("Handler", (PoolHandler,), {"offer": self._offer}))
        except OSError as error:
            raise PrerequisiteMissing(
                f"the pool server cannot listen at {host}:{port} ({error.strerror or error})",
                "end what runs there, or set TRINITY_LOCAL_POOL_URL and --port to a free one",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="pools", daemon=True)
        self._thread.start()
        return f"http://{host}:{self._server.server_address[1]}"

    def stop(self) -> None:
        """End waiting requests, close every connection and free the port."""
        self._offer.stopping.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.end_connections()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _models(pool: LocalPool) -> ServedPool:
    if isinstance(pool, RecordingPool):
        return RecordedCalls(pool)
    return Simulated(pool) if isinstance(pool, SimulatedPool) else Replay(pool)


def _offered(pool: LocalPool | UnavailablePool) -> Served | str:
    if isinstance(pool, UnavailablePool):
        return pool.reason
    return Served(_models(pool), Weather(pool.seed, pool.latency, pool.faults))
