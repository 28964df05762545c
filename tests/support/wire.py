"""A relay before a server that cuts a connection, or does anything else, at exactly one operation.

An operation is one request of a client, whatever it says: a statement, a commit, a ping, the start of a connection. The
product knows nothing of the relay, so that faults do not depend on which statements it makes, nor on its libraries.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy.engine import make_url

WITHOUT_ENCRYPTION = {80877103, 80877104}  # SSLRequest, GSSENCRequest: answered with "no"
CANCEL = 80877102
CHUNK = 1 << 16


class Moment(StrEnum):
    """When a fault strikes. A commit that took effect and is not known to have done so is an AFTER."""

    BEFORE = "before the server has it"
    AFTER = "done, but the answer is lost"


@dataclass(frozen=True)
class Fault:
    """What happens at operation ``at`` (from 1): the connection is cut; ``strike`` runs first."""

    at: int
    moment: Moment
    strike: Callable[[], None] | None = None


@dataclass
class Relay:
    """Listens on loopback, relays to ``target``, counts operations; ``who`` limits both to clients of that name.

    Attributes:
        target: path of a Unix socket, or (host, port).
        who: beginning of the client's application name (Postgres only); empty for all.
        count: operations since ``arm``.
        struck: what the fault hit, None while it has not happened.
    """

    target: str | tuple[str, int]
    who: str = ""
    count: int = 0
    struck: str | None = None
    trace: list[str] = field(default_factory=list)
    _fault: Fault | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: set[socket.socket] = field(default_factory=set)

    def __enter__(self) -> Any:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def arm(self, fault: Fault | None) -> None:
        """Count from zero; strike at the fault's operation, once."""
        with self._lock:
            self._fault, self.count, self.struck = fault, 0, None
            self.trace.clear()

    def cut_all(self) -> None:
        """Close every connection at once."""
        with self._lock:
            left = list(self._open)
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def operation(self, name: str, what: str) -> Fault | None:
        """Count one operation of the client ``name``; return the fault if it is this one's."""
        if not name.startswith(self.who):
            return None
        with self._lock:
            self.count += 1
            self.trace.append(f"{name}: {what}")
            fault = self._fault
            if fault is None or fault.at != self.count:
                return None
            self._fault, self.struck = None, f"{name}: {what}"
        return fault

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        raise NotImplementedError

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError), self._connect() as server:
            for each in (client, server):
                if each.family != socket.AF_UNIX:
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            try:
                self.serve(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _connect(self) -> socket.socket:
        if isinstance(self.target, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            return server
        return socket.create_connection(self.target)


class PostgresRelay(Relay):
    """Speaks the protocol's framing: an operation ends with Query or Sync, its answer with ReadyForQuery."""

    @staticmethod
    def before(url: str) -> PostgresRelay:
        """Return a relay to the server of ``url``."""
        parsed = make_url(url)
        host, port = parsed.host or parsed.query.get("host"), parsed.port or 5432
        assert isinstance(host, str), "wanted a URL that names its host or socket folder"
        return PostgresRelay(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port))

    def url(self, url: str) -> str:
        """Return ``url`` led through this relay."""
        query = {key: value for key, value in make_url(url).query.items() if key != "host"}
        led = make_url(url).set(drivername="postgresql", host="127.0.0.1", port=self.port, query=query)
        return led.render_as_string(hide_password=False)

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        name = self._greet(client, server)
        fault = self.operation(name, "connect")
        if not self._may_go_on(fault):
            return
        Conversation(self, name, client, server).run(fault)

    def _greet(self, client: socket.socket, server: socket.socket) -> str:
        """Pass the start message on and return the application name in it."""
        while True:
            (length,) = struct.unpack("!I", exactly(client, 4))
            body = exactly(client, length - 4)
            (code,) = struct.unpack("!I", body[:4])
            if code not in WITHOUT_ENCRYPTION:
                break
            client.sendall(b"N")
        if code == CANCEL:
            server.sendall(struct.pack("!I", length) + body)
            raise EOFError
        words = body[4:].split(b"\0")
        fields = dict(zip(words[::2], words[1::2], strict=False))
        server.sendall(struct.pack("!I", length) + body)
        return fields.get(b"application_name", b"").decode()

    def _may_go_on(self, fault: Fault | None) -> bool:
        if fault is None or fault.moment is Moment.AFTER:
            return True
        if fault.strike:
            fault.strike()
        return False


@dataclass
class Conversation:
    """One Postgres connection after its start message."""

    relay: Relay
    name: str
    client: socket.socket
    server: socket.socket
    asked: bytearray = field(default_factory=bytearray)
    held: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    waiting: int = 1  # answers that have to come: first that to the start
    doomed: Fault | None = None
    greeted: bool = False
    prepared: dict[bytes, bytes] = field(default_factory=dict)
    said: bytes = b""

    def run(self, fault: Fault | None) -> None:
        """Relay until one side leaves or the fault strikes; ``fault`` may be the start's own."""
        self.doomed = fault
        while True:
            ready, _, _ = select.select([self.client, self.server], [], [])
            if self.server in ready and not self._answer(some(self.server)):
                return
            if self.client in ready and not self._ask(some(self.client)):
                return

    def _ask(self, data: bytes) -> bool:
        self.asked += data
        while (frame := take_frame(self.asked)) is not None:
            self.held += frame
            kind = frame[:1]
            self._read(kind, frame[5:])
            if kind in (b"Q", b"S"):
                if not self._operation():
                    return False
            elif kind in (b"p", b"X", b"H", b"c", b"f", b"d"):
                self._forward()
        return True

    def _read(self, kind: bytes, body: bytes) -> None:
        """Note the statement's text, for reports; prepared ones are sent by name."""
        words = body.split(b"\0", 2)
        if kind == b"Q":
            self.said = words[0]
        elif kind == b"P":
            self.said = self.prepared[words[0]] = words[1]
        elif kind == b"B":
            self.said = self.prepared.get(words[1], b"")

    def _operation(self) -> bool:
        fault = self.relay.operation(self.name, " ".join(self.said.decode("latin-1").split())[:70])
        if fault is not None and fault.moment is Moment.BEFORE:
            if fault.strike:
                fault.strike()
            return False
        self.doomed = fault or self.doomed
        self.waiting += 1
        self._forward()
        return True

    def _forward(self) -> None:
        self.server.sendall(self.held)
        self.held.clear()

    def _answer(self, data: bytes) -> bool:
        self.answered += data
        while (frame := take_frame(self.answered)) is not None:
            if frame[:1] != b"Z":
                continue
            self.waiting -= 1
            if self.doomed is not None and self.waiting <= 0:
                if self.doomed.strike:
                    self.doomed.strike()
                return False
            self.greeted = True
        # The start is a dialogue, so that the client has to hear all of it but its end.
        if self.doomed is None or not self.greeted:
            self.client.sendall(data)
        return True


class StreamRelay(Relay):
    """For any other protocol: an operation is what the client sends at a time, its answer what comes next."""

    @staticmethod
    def before(url: str) -> StreamRelay:
        parsed = make_url(url)
        host, port = parsed.host or "127.0.0.1", parsed.port or 6379
        return StreamRelay((host, port))

    def url(self, url: str) -> str:
        """Return ``url`` led through this relay."""
        return make_url(url).set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        doomed: Fault | None = None
        while True:
            ready, _, _ = select.select([client, server], [], [])
            if server in ready:
                data = some(server)
                if doomed is not None:
                    if doomed.strike:
                        doomed.strike()
                    return
                client.sendall(data)
            if client in ready:
                data = some(client)
                fault = self.operation("", repr(data[:40]))
                if fault is not None and fault.moment is Moment.BEFORE:
                    if fault.strike:
                        fault.strike()
                    return
                doomed = fault or doomed
                server.sendall(data)


def some(source: socket.socket) -> bytes:
    data = source.recv(CHUNK)
    if not data:
        raise EOFError
    return data


def exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def take_frame(buffer: bytearray) -> bytes | None:
    """Cut the first whole message off the buffer."""
    if len(buffer) < 5:
        return None
    (length,) = struct.unpack_from("!I", buffer, 1)
    if len(buffer) < 1 + length:
        return None
    frame = bytes(buffer[: 1 + length])
    del buffer[: 1 + length]
    return frame
