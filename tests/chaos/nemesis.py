"""The faults: drawn from one seed, done at the drawn moments, told one by one and undone at the end."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tests.chaos import mischief
from tests.chaos.system import Seat, Server, System
from tests.support.signals import send

Found = TypeVar("Found")

LEASE_SECONDS = 6.0
TARGET_SECONDS = 20.0
# Most kills are to hit what works; this share may hit what is still starting or recovering.
EARLY_SHARE = 0.15
BURST = 0.12

KILLS: Mapping[str, float] = {"scheduler": 27, "worker": 33, "redis": 20, "postgres": 20}
OTHERS: Mapping[str, float] = {
    "stop scheduler": 2,
    "stop worker": 2,
    "terminate scheduler": 2,
    "terminate worker": 2,
    "flush redis": 2,
    "fill redis": 1,
    "freeze redis": 1,
    "freeze postgres": 1,
    "drop redis clients": 2,
    "end database sessions": 3,
    "publish twice, shuffled": 3,
    "publish garbage": 2,
    "step clocks": 2,
}
OTHERS_SHARE = 0.35


@dataclass(frozen=True)
class Step:
    """After ``pause`` seconds do ``faults``; ``pick`` and ``amount`` in [0, 1) choose target and size."""

    pause: float
    faults: tuple[str, ...]
    pick: float
    amount: float


@dataclass(frozen=True)
class Fault:
    """One fault that happened, in epoch seconds; ``until`` is its end for those that last."""

    at: float
    until: float
    name: str
    target: str
    pid: int | None = None

    @property
    def mere_outage(self) -> bool:
        """Whether the database was away or hung up, and all workers alive."""
        return self.name in ("kill postgres", "freeze postgres", "end database sessions")

    @property
    def kill(self) -> bool:
        return self.name.startswith("kill ")


def plan(seed: int, pace: float) -> Iterator[Step]:
    """Yield steps for ever, ``pace`` seconds apart on average; the same seed gives the same steps."""
    rng = random.Random(seed)
    while True:
        pause = rng.uniform(0.1, 2 * pace - 0.1)
        if rng.random() < OTHERS_SHARE:
            faults = rng.choices(list(OTHERS), list(OTHERS.values()))
        elif rng.random() < BURST:
            faults = [f"kill {kind}" for kind in rng.sample(list(KILLS), rng.randint(2, 4))]
        else:
            faults = [f"kill {kind}" for kind in rng.choices(list(KILLS), list(KILLS.values()))]
        yield Step(pause, tuple(faults), rng.random(), rng.random())


@dataclass
class Nemesis:
    """Context manager: makes trouble in a thread of its own until ``kills`` processes were killed."""

    system: System
    kills: int
    seed: int
    pace: float
    say: Callable[[str], None]
    faults: list[Fault] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lasting: list[threading.Thread] = field(default_factory=list)
    _mended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Nemesis:
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def killed(self) -> int:
        return sum(fault.kill for fault in self.faults)

    def _run(self) -> None:
        try:
            for step in plan(self.seed, self.pace):
                if self.killed >= self.kills or self._stop.wait(step.pause):
                    return
                for fault in step.faults[: self.kills - self.killed or 1]:
                    self._do(fault, step)
        finally:
            self._mended.set()
            for thread in self._lasting:
                thread.join()
            self.done.set()

    def _do(self, name: str, step: Step) -> None:
        action, _, what = name.partition(" ")
        try:
            if action == "kill" and what in ("redis", "postgres"):
                self._kill_server(name, self.system.redis if what == "redis" else self.system.postgres, step)
            elif action == "freeze":
                self._freeze(name, self.system.redis if what == "redis" else self.system.postgres, step)
            elif action in ("kill", "stop", "terminate"):
                self._signal(name, action, what, step)
            else:
                self._mischief(name, step)
        except mischief.FAILURES as error:
            self._tell(f"{name}: not possible now ({type(error).__name__})")

    def _kill_server(self, name: str, server: Server, step: Step) -> None:
        pid = self._wait_for(lambda: server.kill() if server.ready or step.amount < EARLY_SHARE else None)
        if pid := pid or server.kill():
            server.ready = False
            self._note(name, server.kind, pid)

    def _freeze(self, name: str, server: Server, step: Step) -> None:
        """Let a server answer late: all its connections hang meanwhile."""
        frozen = mischief.processes(server)
        send(frozen, signal.SIGSTOP)
        self._last(name, server.kind, 1 + 3 * step.amount, lambda: send(frozen, signal.SIGCONT))

    def _signal(self, name: str, action: str, kind: str, step: Step) -> None:
        early = step.amount < EARLY_SHARE
        seat = self._wait_for(lambda: self._target(kind, step.pick, alone=action == "stop", early=early))
        seat = seat or self._target(kind, step.pick, alone=action == "stop", early=True)
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}[action]
        if seat is None or (pid := seat.send(number)) is None:
            self._tell(f"{name}: nobody to hit")
        elif action == "stop":
            seat.frozen = True
            self._last(name, seat.name, LEASE_SECONDS + 1 + 6 * step.amount, lambda: self._thaw(seat, pid), pid)
        else:
            self._note(name, seat.name, pid)

    def _target(self, kind: str, pick: float, *, alone: bool, early: bool) -> Seat | None:
        seats = self.system.of(kind)
        if alone and any(seat.frozen for seat in seats):
            return None
        chosen = [seat for seat in seats if seat.life and not seat.frozen and (early or seat.connected())]
        return chosen[int(pick * len(chosen))] if chosen else None

    def _thaw(self, seat: Seat, pid: int) -> None:
        if seat.life is not None and seat.life.pid == pid:
            seat.send(signal.SIGCONT)
            seat.frozen = False

    def _mischief(self, name: str, step: Step) -> None:
        system = self.system
        if name == "fill redis":
            mischief.limit_redis(system, full=True)
            self._last(name, "redis", 2 + 4 * step.amount, lambda: mischief.limit_redis(system, full=False))
        elif name == "step clocks":
            if system.clock is not None:
                seconds = round(7200 * (2 * step.amount - 1))
                system.clock.step(seconds)
                self._note(name, f"scheduler-1 and worker-1, now {seconds:+d} s off")
        else:
            self._note(name, mischief.DEEDS[name](system, random.Random(step.pick)))

    def _wait_for(self, find: Callable[[], Found | None]) -> Found | None:
        deadline = time.monotonic() + TARGET_SECONDS
        while not (found := find()) and time.monotonic() < deadline and not self._stop.wait(0.05):
            pass
        return found

    def _last(self, name: str, target: str, seconds: float, undo: Callable[[], object], pid: int | None = None) -> None:
        """Note a fault that lasts, and undo it afterwards or as soon as the storm is over."""
        self._note(name, target, pid, seconds)

        def mend() -> None:
            self._mended.wait(seconds)
            for _ in range(100):
                try:
                    undo()
                except mischief.FAILURES:
                    time.sleep(0.2)
                else:
                    return

        thread = threading.Thread(target=mend, name="mend", daemon=True)
        self._lasting.append(thread)
        thread.start()

    def _note(self, name: str, target: str, pid: int | None = None, seconds: float = 0.0) -> None:
        now = time.time()
        self.faults.append(Fault(now, now + seconds, name, target, pid))
        lasting = f" for {seconds:.1f} s" if seconds else ""
        self._tell(f"{name}: {target}{f' (pid {pid})' if pid else ''}{lasting}")

    def _tell(self, what: str) -> None:
        self.say(f"[{time.monotonic() - self._began:7.1f} s, {self.killed:3d}/{self.kills} kills] {what}")
