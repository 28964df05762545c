"""The provider of the storm, outside of the product: fixed answers, and an account of its own of every request."""

from __future__ import annotations

import hashlib
import json
import socketserver
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.local_pool import SimulatedModel, SimulatedPool, Skill
from services.pool.local.simulated import Simulated
from services.pool.local.wire import completion, read_chat_request

ABLE, UNABLE = Skill(0.9, 0.5, 0.9), Skill(0.1, 0.5, 0.6)
POOL = SimulatedPool(
    "witness",
    1,
    (
        SimulatedModel("adder", {"chain_sum": ABLE}, UNABLE),
        SimulatedModel("speller", {"spell_backward": ABLE}, UNABLE),
    ),
)
PRICES: Mapping[str, Price] = {
    "adder": Price(Decimal("0.2"), Decimal("0.8")),
    "speller": Price(Decimal("0.1"), Decimal("0.5")),
}
LATENCY_SECONDS = (0.05, 0.2)


@dataclass(frozen=True)
class Billed:
    """One request. ``sent`` tells whether the reply left without an error; it is billed in either case."""

    at: float
    campaign: str
    model: str
    usage: Usage
    sent: bool

    @property
    def usd(self) -> Decimal:
        return PRICES[self.model].cost(self.usage)


@dataclass(frozen=True)
class Bill:
    """What the provider would ask for."""

    requests: int
    tokens: int
    usd: Decimal


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def server_bind(self) -> None:
        # The base class asks the name service for the host's full name, which can take seconds.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients are killed in mid-sentence here."""


@dataclass
class Witness:
    """Context manager; a campaign calls it at ``base_url(NAME)``."""

    billed: list[Billed] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Witness:
        self._pool = Simulated(POOL)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"witness": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def base_url(self, campaign: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{campaign}/v1"

    def bill(self, campaign: str) -> Bill:
        mine = [entry for entry in tuple(self.billed) if entry.campaign == campaign]
        return Bill(len(mine), sum(entry.usage.total for entry in mine), sum((e.usd for e in mine), Decimal(0)))

    def answer(self, body: bytes) -> tuple[str, Usage, bytes]:
        """Return model, usage and the reply; both reply and latency depend on the request alone."""
        request = read_chat_request(body)
        document: dict[str, Any] = completion(request, self._pool.reply(request.model, request.messages))
        usage = Usage(document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"])
        return request.model, usage, json.dumps(document).encode()


def latency(body: bytes) -> float:
    """Return a pause that is the same for the same request."""
    shortest, longest = LATENCY_SECONDS
    return shortest + (longest - shortest) * hashlib.sha256(body).digest()[0] / 255


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1024 * 1024  # head and body leave in one packet
    witness: Witness

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        campaign = self.path.split("/")[1]
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed while it asked: nothing to bill
            self.close_connection = True
            return
        try:
            model, usage, reply = self.witness.answer(body)
        except Exception as error:
            self.witness.refused.append(f"{campaign}: {error}")
            raise
        at = time.time()
        self.witness.stopping.wait(latency(body))
        sent = False
        try:
            self._send(reply)
            sent = True
        except OSError:
            self.close_connection = True
        finally:
            self.witness.billed.append(Billed(at, campaign, model, usage, sent))

    def _send(self, reply: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)
        self.wfile.flush()
