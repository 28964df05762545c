"""Runs all attacks on this machine's sandbox and tells which succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from services.core.scoring.ports import Job
from services.sandbox.client import SandboxRunner
from services.sandbox.opening import BACKENDS, open_runner
from tests.attacks import files, kernel, memory, network, processes
from tests.attacks.attack import PRELUDE, Attack
from tests.attacks.world import World, world

ATTACKS: tuple[Attack, ...] = (
    *network.ATTACKS,
    *files.ATTACKS,
    *processes.ATTACKS,
    *memory.ATTACKS,
    *kernel.ATTACKS,
)
AT_ONCE = 4


@dataclass(frozen=True)
class Outcome:
    """What came of one attack; ``success`` is empty for none."""

    name: str
    ending: str
    seconds: float
    success: str


@dataclass(frozen=True)
class Report:
    """What came of all of them."""

    sandbox: str
    outcomes: list[Outcome]
    harm: list[str]

    def successes(self) -> list[str]:
        return [f"{one.name}: {one.success}" for one in self.outcomes if one.success] + self.harm

    def document(self) -> dict[str, object]:
        return asdict(self) | {"successes": self.successes()}


def attack_all(backends: Sequence[str] = BACKENDS, *, quick: bool = False) -> Report:
    """Run every attack, some at once, as they would meet on a busy worker; with ``quick``, not those on limits."""
    with open_runner(backends=backends) as runner, world(runner.pid) as here:
        wanted = [
            one for one in ATTACKS if not (one.namespaces and "landlock" in runner.name) and not (quick and one.slow)
        ]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            outcomes = list(threads.map(lambda one: attack(runner, here, one), wanted))
        harm = [f"something was heard at {kind}" for kind in here.heard()]
        harm += [] if here.victim.poll() is None else ["the victim is dead"]
        harm += [f"process {pid} is left" for pid in below(runner.pid)]
        return Report(runner.name, outcomes, harm)


def attack(runner: SandboxRunner, here: World, one: Attack) -> Outcome:
    done = runner.run(Job(PRELUDE + one.source, here.orders(), one.limits))
    return Outcome(one.name, done.ending, done.wall_seconds, one.success(here, done))


def below(process: int) -> list[str]:
    """Return the living children of all threads of a process."""
    tasks = Path(f"/proc/{process}/task")
    return [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
