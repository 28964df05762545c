"""The ``CodeRunner`` that a process uses: it starts the runner process, again when it is lost, and asks it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import services
from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.core.scoring.ports import Execution, Job
from services.sandbox import wire
from services.sandbox.selftest import Check

START_SECONDS = 120.0
SILENT_SECONDS, SILENCES = 10.0, 6
STOP_SECONDS = 20.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Pending:
    """One request and, later, its answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: wire.Message = ({"unavailable": "the sandbox's runner ended"}, [])

    def fulfil(self, answer: wire.Message | None = None) -> None:
        self.answer = answer or self.answer
        self.done.set()


class Connection:
    """One runner process, from its start to its end."""

    def __init__(self, orders: dict[str, Any]) -> None:
        """Start it and wait until it has passed its self-test.

        Raises:
            PrerequisiteMissing: no program can be confined on this machine.
            GradingUnavailable: the process was lost before it could tell.
        """
        ours, theirs = socket.socketpair()
        root = str(Path(next(iter(services.__path__))).parent)
        command = [sys.executable, "-s", "-S", "-m", "services.sandbox.runner", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=ENVIRONMENT | {"PYTHONPATH": root},
                start_new_session=True,  # Ctrl-C is for the parent, which then closes the channel
                cwd="/",
            )
        self.pid = self._process.pid
        self._channel = ours
        self._sending = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._numbers = itertools.count()
        self._heard = 0
        self.lost = False
        self._guard = threading.Lock()
        self.name, self.checks = self._introduced(orders)
        threading.Thread(target=self._listen, name="sandbox answers", daemon=True).start()

    def _introduced(self, orders: dict[str, Any]) -> tuple[str, list[Check]]:
        self._channel.settimeout(START_SECONDS)
        try:
            wire.send(self._channel, orders)
            answer, _ = wire.receive(self._channel)
        except wire.Closed as error:
            self.close()
            raise GradingUnavailable(f"the sandbox's runner did not start: {error}") from error
        self._channel.settimeout(None)
        if "missing" in answer:
            self.close()
            raise PrerequisiteMissing(answer["missing"], answer["cure"])
        return answer["ready"], [Check(*row) for row in answer["checks"]]

    def ask(self, jobs: list[Job]) -> list[Execution]:
        """Have programs run.

        Raises:
            GradingUnavailable: they were not, for reasons that are not theirs.
        """
        number, pending = next(self._numbers), Pending()
        header, parts = wire.packed(jobs)
        with self._guard:
            self._pending[number] = pending
            if self.lost:
                pending.fulfil()
        with self._sending, contextlib.suppress(wire.Closed):  # then _listen finds out as well
            wire.send(self._channel, {"id": number, **header}, parts)
        self._wait(pending)
        if (reason := pending.answer[0].get("unavailable")) is not None:
            raise GradingUnavailable(reason)
        return wire.unpacked_executions(pending.answer)

    def _wait(self, pending: Pending) -> None:
        """Wait as long as the runner gives signs of life; kill it when it gives none for a minute."""
        heard, silences = self._heard, 0
        while not pending.done.wait(SILENT_SECONDS):
            silences = silences + 1 if self._heard == heard else 0
            heard = self._heard
            if silences >= SILENCES:
                self._process.kill()

    def _listen(self) -> None:
        try:
            while True:
                answer = wire.receive(self._channel)
                self._heard += 1
                if (number := answer[0].get("id")) is not None:
                    with self._guard:
                        pending = self._pending.pop(number)
                    pending.fulfil(answer)
        except wire.Closed:
            with self._guard:
                self.lost = True
                orphans, self._pending = self._pending, {}
            for pending in orphans.values():
                pending.fulfil()

    def close(self) -> None:
        """End the process and with it every program."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._channel.close()


class SandboxRunner:
    """A ``CodeRunner``. Close it, or use it as a context manager; it also ends with its process."""

    def __init__(self, orders: dict[str, Any]) -> None:
        """Start the runner process.

        Raises:
            PrerequisiteMissing: no program can be confined on this machine.
            GradingUnavailable: the runner was lost before it could tell.
        """
        self._orders = orders
        self._starting = threading.Lock()
        self._closed = False
        self._connection = Connection(orders)

    @property
    def name(self) -> str:
        return self._connection.name

    @property
    def checks(self) -> list[Check]:
        """The self-test that it passed."""
        return self._connection.checks

    @property
    def pid(self) -> int:
        """The runner process."""
        return self._connection.pid

    def run(self, job: Job) -> Execution:
        return self._current().ask([job])[0]

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        first, second = self._current().ask([examiner, candidate])
        return first, second

    def _current(self) -> Connection:
        """Return the runner's connection, to a new runner when the last one was lost.

        Raises:
            GradingUnavailable: it cannot be started now.
        """
        with self._starting:
            if self._closed:
                raise GradingUnavailable("the sandbox was closed")
            if self._connection.lost:
                self._connection.close()
                try:
                    self._connection = Connection(self._orders)
                except PrerequisiteMissing as error:
                    raise GradingUnavailable(str(error)) from error
            return self._connection

    def close(self) -> None:
        with self._starting:
            if not self._closed:
                self._closed = True
                self._connection.close()

    def __enter__(self) -> SandboxRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
