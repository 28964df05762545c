"""A plain HTTP client of the local pools, and the smallest pool and transcript to ask about."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from services.core.campaign import ProtocolSpec
from services.core.local_pool import LocalPool, SimulatedModel, SimulatedPool, Skill
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.pool.local.server import LocalPoolServer, UnavailablePool

SUM = "State the final answer to the following arithmetic problem: 4 - 1 - 7 ="


class Client:
    """One kept-alive connection to a pool."""

    def __init__(self, url: str, pool: str) -> None:
        address = urlsplit(url)
        self.connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
        self.pool = pool
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        self.connection.request(method, path, body)
        response = self.connection.getresponse()
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        content = response.read()
        return response.status, json.loads(content) if content.startswith((b"{", b"[")) else content

    def post(self, **body: Any) -> tuple[int, Any]:
        return self.send("POST", f"/{self.pool}/v1/chat/completions", json.dumps(body).encode())

    def ask(self, model: str, role: Role, transcript: Transcript, **body: Any) -> tuple[int, Any]:
        messages = [{"role": m.role, "content": m.content} for m in messages_for(role, transcript, ProtocolSpec())]
        return self.post(model=model, messages=messages, **body)

    def text(self, model: str, role: Role, transcript: Transcript) -> str:
        status, reply = self.ask(model, role, transcript)
        assert status == 200, reply
        return str(reply["choices"][0]["message"]["content"])


@contextmanager
def serving(pool: LocalPool | UnavailablePool) -> Iterator[Client]:
    with LocalPoolServer([pool], port=0) as url:
        client = Client(url, pool.name)
        try:
            yield client
        finally:
            client.connection.close()


def simulated(skill: Skill, **changes: Any) -> SimulatedPool:
    return SimulatedPool("sim", 1, (SimulatedModel("able", {}, skill),), **changes)


def worked(query: str, answer: str | None, *before: Item) -> Transcript:
    item = Item(len(before) + 1, 0, Role.WORKER, RoleSource.POLICY, "", "Worked.", answer=answer)
    return Transcript(query, (*before, item))
