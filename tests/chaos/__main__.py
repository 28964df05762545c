"""``python -m tests.chaos --kills 200 --seed 1``: a calm run, a storm, and the comparison in one last line."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.core.errors import DatabaseUnavailable
from services.storage.engine import Database
from tests.chaos import clock, load, readings, verdict
from tests.chaos.clock import SteppedClock
from tests.chaos.load import Size, Submitter
from tests.chaos.nemesis import Fault, Nemesis
from tests.chaos.nursery import Nursery
from tests.chaos.readings import Results
from tests.chaos.system import System
from tests.chaos.verdict import Verdict
from tests.chaos.witness import Witness
from tests.support.tiny_qwen3 import build_tiny_qwen3

LOOK_SECONDS = 0.25
HUNG_SECONDS = 120.0
FIRST_SCORED = 10
ENDED = ("completed",)
GOING_ON = ("submitted", "running")


class Stuck(Exception):
    """The campaigns do not go on by themselves."""


@dataclass(frozen=True)
class Options:
    kills: int = 200
    seed: int = 1
    pace: float = 3.2
    workers: int = 3
    short: bool = False
    fresh_workers: bool = False
    keep: bool = False

    @property
    def sizes(self) -> tuple[Size, ...]:
        return load.SHORT if self.short else load.FULL


@dataclass(frozen=True)
class Stage:
    """What calm and storm share."""

    options: Options
    folder: Path
    encoder: Path
    witness: Witness
    nursery: Nursery | None
    say: Callable[[str], None]

    @contextmanager
    def system(self, name: str, late: SteppedClock | None = None) -> Iterator[System]:
        """Start the product, its first scheduler and first worker with a clock of their own if there is one."""
        with ExitStack() as stack:
            nursery = None
            if late is not None and self.nursery is not None:
                nursery = stack.enter_context(Nursery(self.folder, late.environment))
            folder, workers = self.folder / name, self.options.workers
            yield stack.enter_context(
                System(folder, nursery=self.nursery, workers=workers, clock=late, late_nursery=nursery)
            )

    def submitter(self, system: System) -> Submitter:
        return Submitter(self.folder, self.encoder, self.witness, system.environment)


@dataclass
class Watch:
    """Follows the campaigns until they are complete; says so when nothing moves any more."""

    system: System
    like: str
    progress: tuple[int, float] = (0, 0.0)

    def unfinished(self, names: Sequence[str]) -> list[str] | None:
        """Return the names that are not complete yet, None while the database is away; raise Stuck for a dead end."""
        try:
            with self.system.database() as database, database.transaction() as conn:
                states = readings.states(conn)
                scored = len(readings.scored_at(conn, self.like))
        except DatabaseUnavailable:
            return None
        for name, (state, reason) in states.items():
            if state not in (*ENDED, *GOING_ON):
                raise Stuck(f"{name} is {state}: {reason}")
        now = time.monotonic()
        if scored != self.progress[0] or not self.progress[1]:
            self.progress = (scored, now)
        elif now - self.progress[1] > HUNG_SECONDS:
            raise Stuck(f"no episode was scored for {HUNG_SECONDS:.0f} s")
        return [name for name in names if states[name][0] not in ENDED]

    def wait(self, names: Sequence[str], most: int = 0, until: Callable[[], bool] = lambda: False) -> None:
        """Wait until at most ``most`` campaigns are unfinished, or ``until`` holds."""
        while (left := self.unfinished(names)) is None or len(left) > most:
            if until():
                return
            time.sleep(LOOK_SECONDS)


def calm(stage: Stage, system: System) -> Mapping[str, Results]:
    """Run every campaign once, undisturbed."""
    began = time.monotonic()
    names = {f"calm-{size.label}": size for size in stage.options.sizes}
    for name, size in names.items():
        stage.submitter(system).submit(size, name)
    Watch(system, "calm%").wait(list(names))
    with system.database() as database, database.transaction() as conn:
        found = {size.label: readings.results(conn, name) for name, size in names.items()}
        stall = verdict.longest_stall(readings.scored_at(conn))
        repeats = [attempt for attempt in readings.attempts(conn) if attempt.outcome != "done"]
    episodes = sum(len(results.episodes) for results in found.values())
    took = time.monotonic() - began
    stage.say(f"calm: {len(names)} campaigns, {episodes} episodes, {took:.0f} s, longest stall {stall:.1f} s")
    if repeats:
        stage.say(f"calm: {len(repeats)} attempts were repeated without any fault: {repeats[:3]}")
    return found


@dataclass
class Storm:
    """Rounds of the same campaigns until enough processes were killed, then the reckoning."""

    stage: Stage
    expected: Mapping[str, Results]

    def run(self, system: System) -> Verdict:
        options = self.stage.options
        began = time.monotonic()
        watch = Watch(system, "r%")
        names: list[tuple[str, Size]] = []
        stuck: Stuck | None = None
        nemesis = Nemesis(system, options.kills, options.seed, options.pace, self.stage.say)
        try:
            self._submit(system, names)
            watch.wait([name for name, _ in names], until=lambda: watch.progress[0] > FIRST_SCORED)
            with nemesis:
                self._rounds(system, watch, nemesis, names)
        except Stuck as error:
            stuck = error
        took = time.monotonic() - began
        result = self._judge(system, nemesis, names, stuck, took)
        if stuck is not None:
            self._explain(system)
        return result

    def _rounds(self, system: System, watch: Watch, nemesis: Nemesis, names: list[tuple[str, Size]]) -> None:
        watch.wait([name for name, _ in names], 1, nemesis.done.is_set)
        while not nemesis.done.is_set():
            self._submit(system, names)
            watch.wait([name for name, _ in names], 1, nemesis.done.is_set)
        self.stage.say("the storm is over, the campaigns go on")
        watch.wait([name for name, _ in names])

    def _submit(self, system: System, names: list[tuple[str, Size]]) -> None:
        number = len(names) // len(self.stage.options.sizes) + 1
        submitter = self.stage.submitter(system)
        for size in self.stage.options.sizes:
            names.append((f"r{number}-{size.label}", size))
            submitter.submit(size, names[-1][0])

    def _judge(
        self, system: System, nemesis: Nemesis, names: list[tuple[str, Size]], stuck: Stuck | None, took: float
    ) -> Verdict:
        result = Verdict(nemesis.killed)
        if stuck is not None:
            result.faults.append(str(stuck))
        elif nemesis.killed < self.stage.options.kills:
            result.faults.append(f"only {nemesis.killed} processes were killed")
        with system.database() as database:
            for name, size in names:
                verdict.compare(result, database, name, self.expected[size.label], self.stage.witness)
            self._count(result, database, nemesis.faults, took, len(names))
        result.faults += verdict.audit(system)
        result.faults += [f"the provider refused: {refusal}" for refusal in self.stage.witness.refused[:3]]
        ends = verdict.own_ends(system.ends)
        result.remarks.append(f"ends that nobody asked for: {told(ends) or 'none'}")
        return result

    def _count(self, result: Verdict, database: Database, faults: Sequence[Fault], took: float, campaigns: int) -> None:
        with database.transaction() as conn:
            attempts, scored = readings.attempts(conn, "r%"), readings.scored_at(conn, "r%")
        repeats = verdict.repeated(attempts, faults)
        kinds = Counter(fault.name.removeprefix("kill ") for fault in faults if fault.kill)
        others = Counter(fault.name for fault in faults if not fault.kill)
        sent = Counter(entry.sent for entry in self.stage.witness.billed)
        result.remarks += [
            f"storm: {campaigns} campaigns, {len(scored)} episodes, {took:.0f} s",
            f"kills: {told(kinds)}",
            f"other faults: {told(others)}",
            f"attempts without a reward: {repeats.total} of {len(attempts)} ({told(repeats.outcomes)})",
            (
                f"of these in flight when their own worker was hit {repeats.own_worker}, only the database "
                f"{repeats.database}, neither {len(repeats.other)}; in flight at a fault {repeats.in_flight}"
            ),
            f"provider: {sent[True]} replies sent, {sent[False]} cut off",
            f"longest stall: {verdict.longest_stall(scored):.1f} s",
        ]
        if repeats.total > repeats.in_flight:
            result.faults.append(
                f"{repeats.total} attempts were repeated, {repeats.in_flight} were in flight at a fault"
            )
        result.remarks += [f"repeated without a fault: {attempt}" for attempt in repeats.other[:5]]

    def _explain(self, system: System) -> None:
        with system.database() as database, database.transaction() as conn:
            rows = conn.exec_driver_sql(
                "select c.name, e.state, count(*), min(e.attempt), max(e.attempt), min(e.lease_expires_at),"
                " min(e.available_at) from episode e join campaign c on c.id = e.campaign_id"
                " where e.state not in ('scored') group by 1, 2"
            ).all()
        for row in rows:
            self.stage.say(f"stuck: {tuple(row)}")
        for seat in system.seats:
            self.stage.say(f"stuck: {seat.name} {seat.life} lived {seat.lived():.0f} s")


def told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def weather(stage: Stage) -> Verdict:
    """Run calm and storm in systems of their own, or one after the other in one where time is short."""
    if stage.options.short:
        with stage.system("storm") as system:
            return Storm(stage, calm(stage, system)).run(system)
    with stage.system("calm") as system:
        expected = calm(stage, system)
    late = clock.build(stage.folder)
    if late is None:
        stage.say("no C compiler is at hand: no clock is stepped")
    with stage.system("storm", late) as system:
        return Storm(stage, expected).run(system)


def run(options: Options, say: Callable[[str], None]) -> Verdict:
    """Run calm and storm; the folder with data and logs is kept when something is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="trinity-chaos-", dir="/tmp"))
    folder.chmod(0o755)
    say(f"data and logs: {folder}")
    with ExitStack() as stack:
        nursery = None if options.fresh_workers else stack.enter_context(Nursery(folder))
        witness = stack.enter_context(Witness())
        stage = Stage(options, folder, build_tiny_qwen3(folder / "encoder"), witness, nursery, say)
        result = weather(stage)
    if result.good and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=Options.kills, help="SIGKILLs over all kinds of processes")
    parser.add_argument("--seed", type=int, default=Options.seed, help="of the faults")
    parser.add_argument("--pace", type=float, default=Options.pace, help="seconds between faults on average")
    parser.add_argument("--workers", type=int, default=Options.workers)
    parser.add_argument("--short", action="store_true", help="small campaigns, one system, no stepped clocks")
    parser.add_argument("--fresh-workers", action="store_true", help="start each worker as a program of its own")
    parser.add_argument("--keep", action="store_true", help="keep data and logs of a good run, too")
    options = Options(**vars(parser.parse_args()))
    result = run(options, progress)
    sys.stdout.writelines(f"{line}\n" for line in result.lines())
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
