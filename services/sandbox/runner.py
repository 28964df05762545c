"""``python -m services.sandbox.runner``: the process that owns every sandboxed program and ends with its parent.

It is started once, not forked, so it has none of its parent's memory, threads, descriptors or environment.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import sys
import threading
from typing import Any

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.sandbox import wire
from services.sandbox.prepare import prepare
from services.sandbox.service import Service

SIGN_OF_LIFE_SECONDS = 1.0
STOP_SECONDS = 15.0


class Runner:
    """Serves one parent."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._waiting: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()
        self._parent = os.getppid()

    def serve(self) -> None:
        """Prepare, then answer requests until the parent is gone."""
        orders, _ = wire.receive(self._channel)
        try:
            ready = prepare(orders)
        except PrerequisiteMissing as error:
            self._send({"missing": error.what, "cure": error.cure})
            return
        checks = [(check.name, check.held, check.detail) for check in ready.checks]
        self._send({"ready": ready.name, "checks": checks})
        service = Service(ready.backend, orders["places"])
        threads = [threading.Thread(target=self._work, args=(service,), daemon=True) for _ in range(orders["places"])]
        for thread in threads:
            thread.start()
        try:
            self._read()
        finally:
            service.stop()
            for _ in threads:
                self._waiting.put(({"id": None}, []))
            for thread in threads:
                thread.join(STOP_SECONDS)

    def _read(self) -> None:
        """Take requests, and tell every second that this process lives."""
        while os.getppid() == self._parent:
            ready, _, _ = select.select([self._channel], [], [], SIGN_OF_LIFE_SECONDS)
            if ready:
                self._waiting.put(wire.receive(self._channel))
            else:
                self._send({"alive": True})

    def _work(self, service: Service) -> None:
        while (message := self._waiting.get())[0]["id"] is not None:
            answer, parts = answered(service, message)
            try:
                self._send({"id": message[0]["id"], **answer}, parts)
            except wire.Closed:
                return

    def _send(self, header: dict[str, Any], parts: list[bytes] | None = None) -> None:
        with self._sending:
            wire.send(self._channel, header, parts or [])


def answered(service: Service, message: wire.Message) -> wire.Message:
    try:
        jobs = wire.unpacked(message)
        return wire.packed_executions(service.run(*jobs) if len(jobs) == 1 else service.examine(*jobs))
    except GradingUnavailable as error:
        return {"unavailable": str(error)}, []
    except Exception as error:  # noqa: BLE001 - one request may not end the others
        return {"unavailable": f"the sandbox's runner failed: {type(error).__name__}: {error}"}, []


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end, by closing the channel
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.set_inheritable(False)
        try:
            Runner(channel).serve()
        except wire.Closed:
            return


if __name__ == "__main__":
    main()
