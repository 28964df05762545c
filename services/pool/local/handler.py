"""The HTTP side of the local pools: one handler per connection, one packet per reply."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from services.pool.local.weather import Fault, Weather
from services.pool.local.wire import CALL_HEADER, RefusalError, ServedPool, error_body, read_chat_request

LARGEST_REQUEST = 32 * 1024 * 1024
MALFORMED = b"<html><body>This is not a chat completion.</body></html>"


@dataclass(frozen=True)
class Served:
    """A pool and the draws of its faults and latency."""

    pool: ServedPool
    weather: Weather


class Offer:
    """All that the handlers share.

    Attributes:
        served: pool name -> pool.
        unavailable: pool name -> why it cannot be served.
        stopping: set when the server stops; ends every wait.
    """

    def __init__(self, pools: Mapping[str, Served | str], look: Callable[[str], Served | str | None]) -> None:
        """Offer pools, a reason in place of one that cannot be served; ``look`` finds one that is not offered yet."""
        self.served = {name: pool for name, pool in pools.items() if isinstance(pool, Served)}
        self.unavailable = {name: reason for name, reason in pools.items() if isinstance(reason, str)}
        self.stopping = threading.Event()
        self._look = look
        self._looking = threading.Lock()

    def find(self, name: str) -> Served | str | None:
        """Return a pool, or why it cannot be served, or None; a file that is new or mended needs no restart."""
        if name in self.served or not name:
            return self.served.get(name)
        with self._looking:
            found = self.served.get(name) or self._look(name)
            if isinstance(found, Served):
                self.served = {**self.served, name: found}
                self.unavailable = {other: why for other, why in self.unavailable.items() if other != name}
        return found if found is not None else self.unavailable.get(name)


class HungError(Exception):
    """The request stays without an answer."""


class PoolHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection; ``offer`` is set on the subclass that a server makes for itself."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body leave in one packet: sent apart, the client's delayed acknowledgement costs 40 ms a reply.
    wbufsize = 1024 * 1024
    timeout = 300  # seconds until an idle connection is given up
    offer: Offer

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - signature of the base class
        """Write no access log: the ledger records every call."""

    def _answer(self, respond: Callable[[], bytes]) -> None:
        try:
            self._send(200, respond())
        except RefusalError as refusal:
            wait = refusal.retry_after_seconds
            headers = {} if wait is None else {"Retry-After": f"{wait:g}"}
            self._send(refusal.status, json.dumps(error_body(refusal.code, refusal.message)).encode(), headers)
        except HungError:
            self.close_connection = True

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _get(self) -> bytes:
        if self.path == "/healthz":
            return json.dumps(
                {"pools": {**dict.fromkeys(self.offer.served, "ready"), **self.offer.unavailable}}
            ).encode()
        models = [{"id": name, "object": "model"} for name in self._served("models").pool.models]
        return json.dumps({"object": "list", "data": models}).encode()

    def _post(self) -> bytes:
        body = self._body()
        served = self._served("chat/completions")
        request = read_chat_request(body, self.headers.get(CALL_HEADER, ""))
        if request.model not in served.pool.models:
            known = ", ".join(served.pool.models)
            raise RefusalError(
                404, "model_not_found", f"pool {served.pool.name} has no model {request.model!r}; it has {known}"
            )
        fault, seconds = served.weather.next()
        if fault is not None:
            return self._fail(fault, served.pool)
        reply = served.pool.complete(request)
        self._wait(seconds)
        return json.dumps(reply).encode()

    def _fail(self, fault: Fault, pool: ServedPool) -> bytes:
        match fault:
            case Fault.RATE_LIMITED:
                raise RefusalError(429, "rate_limit_exceeded", "slow down", pool.faults.retry_after_seconds)
            case Fault.SERVER_ERROR:
                raise RefusalError(500, "server_error", "the pool fails at the rate its file states")
            case Fault.HANG:
                self._wait(pool.faults.hang_seconds)
                raise HungError
            case Fault.MALFORMED:
                return MALFORMED

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and self.offer.stopping.wait(seconds):
            raise HungError

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > LARGEST_REQUEST:
            self.close_connection = True
            raise RefusalError(411, "length_required", f"Content-Length: got {length!r}, wanted 0 to {LARGEST_REQUEST}")
        return self.rfile.read(int(length))

    def _served(self, method: str) -> Served:
        _, _, rest = self.path.partition("/")
        name, _, tail = rest.partition("/")
        found = self.offer.find(name)
        if isinstance(found, str):
            raise RefusalError(503, "pool_unavailable", f"pool {name} is not served: {found}")
        if found is None or tail != f"v1/{method}":
            known = ", ".join(self.offer.served) or "none"
            raise RefusalError(404, "not_found", f"nothing at {self.path}; wanted /POOL/v1/{method}, pools: {known}")
        return found
