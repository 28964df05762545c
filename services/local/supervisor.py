"""The process behind ``manage.py up``: embedded services first, then the product's own programs, kept alive together.

It is single-threaded and waits for signals only; whatever happens to it, the kernel stops its children (Linux).
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.local import endpoints, state
from services.local.children import Backoff, Child, Restart, RunningChild, describe
from services.local.endpoints import Endpoints
from services.local.processes import last_line, send, started_with
from services.local.service import Service
from services.local.state import SupervisorStatus, ask_to_stop, status
from services.local.wakeup import Wakeup

__all__ = ["Child", "Restart", "Supervisor", "SupervisorStatus", "ask_to_stop", "status"]

# Inherited by all that a child starts; finds what outlived a killed supervisor.
MARKER = "TRINITY_SUPERVISED"
# Signals say when to look; this bounds the wait should one be missed.
LONGEST_WAIT_SECONDS = 5.0
READY_LOOK_SECONDS = 0.1
ATTEMPTS_TO_BECOME_READY = 3


class _Stopped(Exception):
    """Leaves the start when the user ends it half way."""


class Supervisor:
    """Runs the services and children of one ``var_dir``, one supervisor per folder.

    Args:
        var_dir: the folder; ``run`` and ``log`` are made in it.
        services: started in this order, stopped last in the reverse order.
        say: told, sentence by sentence, what happens.
    """

    def __init__(self, var_dir: Path, services: Sequence[Service], *, say: Callable[[str], None]) -> None:
        self._var_dir = var_dir.resolve()
        self._services = services
        self._say = say
        self._lock = state.lock(self._var_dir)
        self._children: list[RunningChild] = []
        self._service_due: dict[str, float] = {}
        self._service_backoff = {service.name: Backoff() for service in services}
        self._service_started: dict[str, float] = {}
        self._ready = False
        self._wakeup = Wakeup()

    def run(self, prepare: Callable[[Endpoints], Sequence[Child]], on_ready: Callable[[], None] | None = None) -> None:
        """Starts everything, keeps it running until SIGINT, SIGTERM or SIGHUP, then stops everything in reverse order.

        Main thread only. Children end first, stage by stage, then the services. A second signal while stopping ends the
        children by force.

        Args:
            prepare: called with the services' URLs once they answer; migrates the database and returns the children.
            on_ready: called when all children have been started and those that can tell are ready.

        Raises:
            PrerequisiteMissing: another supervisor runs in this folder, a service cannot be started, or a child ended
                three times before it was ever ready. Whatever ran is stopped by then.
        """
        if not self._lock.acquire():
            raise PrerequisiteMissing(
                f"{self._var_dir} is already being served by process {self._lock.holder()}",
                "use that one, stop it with `manage.py down`, or set TRINITY_VAR_DIR to another folder",
            )
        with self._wakeup:
            try:
                self._start(prepare)
                if on_ready is not None:
                    on_ready()
                self._watch()
            except _Stopped:
                self._say("stopped before everything was up")
            finally:
                self._stop()
                self._lock.release()

    def _start(self, prepare: Callable[[Endpoints], Sequence[Child]]) -> None:
        self._end_strays()
        urls = {}
        for service in self._services:
            urls[service.endpoint] = service.start()
            self._service_started[service.name] = time.monotonic()
            self._leave_if_asked()
        published = Endpoints(**urls)
        endpoints.write(self._var_dir, published)
        environment = {**os.environ, MARKER: self._mark()}
        children = sorted(prepare(published), key=lambda child: child.stage)
        self._children = [RunningChild(child, self._var_dir / "log", environment) for child in children]
        for _, stage in groupby(self._children, key=lambda running: running.child.stage):
            self._start_stage(list(stage))
        self._ready = True
        self._record()

    def _start_stage(self, stage: Sequence[RunningChild]) -> None:
        for running in stage:
            self._leave_if_asked()
            running.start()
        self._record()
        waiting = {running.child.name: running for running in stage if running.child.ready is not None}
        while waiting:
            for name, running in list(waiting.items()):
                if running.child.ready is None or (running.pid is not None and running.child.ready()):
                    del waiting[name]
                elif running.backoff.failures >= ATTEMPTS_TO_BECOME_READY:
                    raise PrerequisiteMissing(
                        f"{name} does not start: {last_line(running.log_path)}", f"see {running.log_path}"
                    )
                elif running.due is None and running.lived() > running.child.ready_seconds:
                    self._say(f"{name} is not ready after {running.lived():.0f} s; going on (log: {running.log_path})")
                    del waiting[name]
            if waiting:
                self._wakeup.wait(READY_LOOK_SECONDS)
                self._leave_if_asked()
                self._tend()

    def _watch(self) -> None:
        while not self._wakeup.stops:
            self._wakeup.wait(self._seconds_to_next_start())
            if not self._wakeup.stops:
                self._tend()

    def _tend(self) -> None:
        """Notices what has ended and starts again what is due."""
        changed = [self._tend_service(service) for service in self._services]
        changed += [self._tend_child(running) for running in self._children]
        if any(changed):
            self._record()

    def _tend_service(self, service: Service) -> bool:
        now = time.monotonic()
        due = self._service_due.get(service.name)
        if due is None and service.pid() is None:
            delay = self._service_backoff[service.name].delay(now - self._service_started[service.name])
            self._service_due[service.name] = now + delay
            self._say(f"{service.name} has ended; starting it again in {delay:.1f} s")
            return True
        if due is None or now < due:
            return False
        self._service_started[service.name] = now
        del self._service_due[service.name]
        try:
            service.start()
        except PrerequisiteMissing as error:
            self._say(str(error))
        else:
            self._say(f"{service.name} runs again")
        return True

    def _tend_child(self, running: RunningChild) -> bool:
        code = running.ended()
        if code is None:
            if running.due is None or time.monotonic() < running.due:
                return False
            running.start()
            return True
        told = f"{running.child.name} {describe(code)} after {running.lived():.1f} s"
        if running.child.restart is Restart.NEVER:
            self._say(f"{told} (log: {running.log_path})")
            return True
        delay = running.backoff.delay(running.lived())
        running.due = time.monotonic() + delay
        self._say(f"{told}; starting it again in {delay:.1f} s (log: {running.log_path})")
        return True

    def _seconds_to_next_start(self) -> float:
        dues = [running.due for running in self._children if running.due is not None]
        dues += self._service_due.values()
        return min([LONGEST_WAIT_SECONDS, *(max(0.0, due - time.monotonic()) for due in dues)])

    def _stop(self) -> None:
        self._ready = False
        self._record()
        patience = min(self._wakeup.stops, 1)  # also of signals that came before this line, one alone is a wish
        for _, stage in groupby(reversed(self._children), key=lambda running: running.child.stage):
            self._stop_stage(list(stage), patience)
        for service in reversed(self._services):
            service.stop()
        endpoints.forget(self._var_dir)
        state.forget(self._var_dir)

    def _stop_stage(self, stage: Sequence[RunningChild], patience: int) -> None:
        asked = time.monotonic()
        for running in stage:
            running.ended()
            running.ask_to_stop()
        while left := [running for running in stage if running.pid is not None and running.ended() is None]:
            for running in left:
                remaining = asked + running.child.stop_seconds - time.monotonic()
                if remaining <= 0 or self._wakeup.stops > patience:
                    self._say(f"{running.child.name} has not stopped by itself; ending it")
                    running.kill()
            self._wakeup.wait(READY_LOOK_SECONDS)

    def _leave_if_asked(self) -> None:
        if self._wakeup.stops:
            raise _Stopped

    def _mark(self) -> str:
        return hashlib.sha256(str(self._var_dir).encode()).hexdigest()[:16]

    def _end_strays(self) -> None:
        # Not when this process is itself such a one, for then its own ancestors are among them.
        if os.environ.get(MARKER) != self._mark():
            for pid in started_with(MARKER, self._mark()):
                send(pid, signal.SIGKILL)

    def _record(self) -> None:
        processes = {service.name: service.pid() for service in self._services}
        processes |= {running.child.name: running.pid for running in self._children}
        present = {name: pid for name, pid in processes.items() if pid is not None}
        state.record(self._var_dir, SupervisorStatus(os.getpid(), self._ready, present))
