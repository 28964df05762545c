"""A hub on loopback: the addresses of the real one, files from a folder, redirects to a store of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "c" * 40


@dataclass
class FakeHub:
    """What the hub has and what it was asked.

    Attributes:
        folder: ``OWNER/NAME/PATH`` files.
        commit: the commit that ``main`` is.
        token: the token that is asked for; None: none.
        status: answered to everything instead, when set.
        about: answered about a revision instead, when set.
        short: bytes that are missing at the end of every file.
        asked: paths that the hub was asked for, each with the Authorization that came.
        stored: likewise of the store that it redirects to.
    """

    folder: Path
    commit: str = COMMIT
    token: str | None = None
    status: int | None = None
    about: bytes | None = None
    short: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    stored: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""
    store: str = ""


def _answer(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", location: str | None = None) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    if location is not None:
        handler.send_header("Location", location)
    handler.end_headers()
    handler.wfile.write(body)


def _hub_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers["Authorization"]))
            if hub.status is not None:
                return _answer(self, hub.status)
            if hub.token is not None and self.headers["Authorization"] != f"Bearer {hub.token}":
                return _answer(self, 401)
            match unquote(self.path).strip("/").split("/"):
                case ["api", "datasets", owner, name, "revision", "main"] if (hub.folder / owner / name).is_dir():
                    return _answer(self, 200, hub.about or json.dumps({"sha": hub.commit, "gated": False}).encode())
                case ["datasets", owner, name, "resolve", revision, *path] if revision != "main":
                    if (hub.folder / owner / name).joinpath(*path).is_file():
                        return _answer(self, 302, location=f"{hub.store}/{owner}/{name}/{'/'.join(path)}")
            return _answer(self, 404)

    return Handler


def _store_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

        def do_GET(self) -> None:
            hub.stored.append((self.path, self.headers["Authorization"]))
            data = (hub.folder / unquote(self.path).strip("/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) - hub.short])

    return Handler


@contextmanager
def fake_hub(folder: Path) -> Iterator[FakeHub]:
    """Serve a folder until the block ends."""
    hub = FakeHub(folder)
    with ExitStack() as stack:
        urls = []
        for handler in (_hub_handler(hub), _store_handler(hub)):
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            urls.append(f"http://127.0.0.1:{server.server_address[1]}")
        hub.url, hub.store = urls
        yield hub
