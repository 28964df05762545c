"""A scripted LLM provider on loopback: it plays its steps in order, the last one for ever, and logs every request."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Step:
    """What one request gets.

    Attributes:
        status, headers, body: of the response.
        delay_seconds: pause before it.
        drip_seconds: pause before every byte of the body.
        hang_seconds: nothing for that long, then a closed connection; 0 answers.
        cut: close the connection in the middle of the body.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    drip_seconds: float = 0.0
    hang_seconds: float = 0.0
    cut: bool = False


@dataclass(frozen=True)
class Logged:
    """One request as it arrived; ``at`` is on the monotonic clock, header names are in lower case."""

    at: float
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


USAGE: Mapping[str, object] = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def completion(**changes: Any) -> dict[str, Any]:
    """Return a completion object; a change of ``...`` leaves the key out."""
    document: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": dict(USAGE),
    }
    document |= changes
    return {key: value for key, value in document.items() if value is not ...}


def reply(text: str | None = "hello", finish_reason: str = "stop", **changes: Any) -> Step:
    """Return a step with a chat completion; ``usage=...`` leaves the usage out."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return raw(json.dumps(completion(choices=[choice], **changes)).encode())


def thinking(text: str | None, finish_reason: str = "stop") -> Step:
    """Return a step with text in the field for reasoning."""
    message = {"role": "assistant", "content": text, "reasoning_content": "surely 4"}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return raw(json.dumps(completion(choices=[choice])).encode())


def raw(body: bytes, content_type: str = "application/json", **step: Any) -> Step:
    return Step(body=body, headers={"Content-Type": content_type}, **step)


def error(status: int, message: str = "scripted failure", code: str | None = None, **headers: str) -> Step:
    """Return a step with OpenAI's error object; ``retry_after="1"`` becomes ``Retry-After: 1``."""
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Step(status=status, body=body, headers={"Content-Type": "application/json", **named})


def hang(seconds: float = 60.0) -> Step:
    return Step(hang_seconds=seconds)


Script = Callable[[Logged], Step]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256  # many callers connect at the same moment

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class ScriptedProvider:
    """Context manager; ``url`` is the base address, ``requests`` the log, ``connections`` the number ever opened.

    Args:
        steps: played in order; the last is repeated. Or one function from the request to its step, for scripts that
            depend on what is asked; it is called by many threads.
    """

    def __init__(self, *steps: Step | Script) -> None:
        self._steps = steps
        self._lock = threading.Lock()
        self.requests: list[Logged] = []
        self.connections = 0
        self.hung_up = threading.Event()  # a client left while its request was hanging
        self.stopping = threading.Event()
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedProvider:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request: Logged) -> Step:
        with self._lock:
            step = self._steps[min(len(self.requests), len(self._steps) - 1)]
            self.requests.append(request)
        return step if isinstance(step, Step) else step(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: ScriptedProvider

    def setup(self) -> None:
        super().setup()
        self.provider.connections += 1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step = self.provider.take(
            Logged(time.monotonic(), self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        )
        if step.delay_seconds:
            self.provider.stopping.wait(step.delay_seconds)
        if step.hang_seconds:
            self._hang(step.hang_seconds)
            return
        self.send_response(step.status)
        for name, value in {**step.headers, "Content-Length": str(len(step.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(step)

    def _write(self, step: Step) -> None:
        if step.cut:
            self.wfile.write(step.body[: len(step.body) // 2])
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif step.drip_seconds:
            for byte in step.body:
                if self.provider.stopping.wait(step.drip_seconds):
                    return
                self.wfile.write(bytes([byte]))
        else:
            self.wfile.write(step.body)

    def _hang(self, seconds: float) -> None:
        self.close_connection = True
        deadline = time.monotonic() + seconds
        self.connection.settimeout(0.05)
        while time.monotonic() < deadline and not self.provider.stopping.is_set():
            try:
                if not self.connection.recv(1):
                    self.provider.hung_up.set()
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                self.provider.hung_up.set()
                return
