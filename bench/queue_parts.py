"""What the bench measures, part by part; each returns figures by name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from celery import Celery

from bench import queue_rival
from bench.queue_campaigns import DIMENSION, Size, Turn, Watch, campaign, submit
from bench.queue_history import History
from bench.queue_processes import Place, since, wait_until
from services.core.ids import CampaignId
from services.storage.engine import Database

Figures = dict[str, Any]

SLOTS = 64
CALL_SECONDS, MOST_TURNS = 0.2, 5
# What the stand-in has to be asked for so that 4.5 calls are made: it counts turns without a call, which we forbid.
ASKED_TURNS = 4.77
LONG_CALL_SECONDS = 6.0
RIVALS = {
    "celery": {"events": True, "plain": True},
    "celery_without_events": {"events": False, "plain": True},
    "celery_with_our_settings": {"events": True, "plain": False},
}
SEED, POPULATION = 7, 32


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 2
    tasks: int = 800
    generations: int = 6
    waiting_generations: int = 2
    stored: tuple[int, ...] = (10, 60)
    growth_turns: int = 5
    campaigns: int = 0
    replays: tuple[int, ...] = (60,)


FULL = Sizes(4, 2000, 12, 5, (10, 100, 1000), 20, 20, (60, 1000))


@dataclass
class Bench:
    """The place, and what the parts share in it."""

    place: Place
    sizes: Sizes
    history: History = field(default_factory=lambda: History(SEED, POPULATION))
    _number: int = 0

    def __post_init__(self) -> None:
        self.database = Database(self.place.database_url, application_name="trinity bench", pool_size=1)
        self.watch = Watch(self.place.database_url)

    def close(self) -> None:
        self.watch.close()
        self.database.close()

    def start(self, *words: str, slots: int = SLOTS) -> None:
        """Start the scheduler and a worker, and play a small campaign that warms them up."""
        self.place.start("scheduler", "scheduler", TRINITY_DISPATCH_WINDOW=4 * slots)
        arguments = ["--slots", str(slots), "--name", "bench", *words]
        self.place.start("worker", "tests.support.stub_worker", *arguments, TRINITY_WORKER_SLOTS=slots)
        self.place.wait_for_workers()
        self.run(Size(1, 8, 8))

    def stop(self) -> None:
        """Stop all programs, so that the next part starts anew."""
        self.place.stop_all()

    def submit(self, size: Size) -> CampaignId:
        self._number += 1
        wanted = campaign(f"bench-{self._number}", size, seed=SEED)
        if not size.stored:
            return submit(self.database, wanted)
        return submit(self.database, wanted, lambda conn, made: self.history.insert(conn, made, size))

    def run(self, size: Size) -> CampaignId:
        made = self.submit(size)
        self.watch.wait_for_end([made])
        return made


@dataclass
class Rival:
    """A bare Celery worker on a database of the broker of its own, idle while others are measured."""

    place: Place
    name: str
    broker: int
    events: bool
    plain: bool

    def __post_init__(self) -> None:
        self.counter: Path = self.place.folder / f"{self.name}.count"
        self.counter.write_bytes(queue_rival.NOTHING)
        url = self.place.broker(self.broker)
        switches = [f"--{switch}" for switch in ("events", "plain") if getattr(self, switch)]
        words = ["--broker", url, "--slots", str(SLOTS), "--counter", str(self.counter), *switches]
        self.place.start(self.name, "bench.queue_rival", *words)
        self.app: Celery = queue_rival.application(url, events=self.events, plain=self.plain)

    def run(self, tasks: int) -> tuple[float, float]:
        """Run so many tasks; return tasks per second, and CPU milliseconds per task of worker, Redis and sender."""
        target = queue_rival.done(self.counter)[0] + tasks
        before, sender = self.place.cpu(), time.process_time()
        started = queue_rival.send(self.app, tasks)
        sender = time.process_time() - sender
        wait_until(lambda: queue_rival.done(self.counter)[0] >= target, 120, "the rival's tasks")
        used = since(before, self.place.cpu())
        seconds = queue_rival.done(self.counter)[1] - started
        return tasks / seconds, (used[self.name] + used["redis"] + sender) / tasks * 1000


def throughput(bench: Bench) -> tuple[Figures, list[Turn]]:
    """Alternate rivals and our whole path; return figures, and the turns of generations on the way."""
    place, sizes = bench.place, bench.sizes
    rivals = [Rival(place, name, broker, **how) for broker, (name, how) in enumerate(RIVALS.items(), start=1)]
    bench.start()
    for rival in rivals:
        place.wait_for_workers(broker=rival.broker)
        rival.run(200)
    rates: dict[str, list[float]] = {name: [] for name in [*RIVALS, "ours"]}
    cpu: dict[str, list[float]] = {name: [] for name in rates}
    shares: dict[str, float] = {}
    turns: list[Turn] = []
    for _ in range(sizes.rounds):
        for rival in rivals:
            rate, milliseconds = rival.run(sizes.tasks)
            rates[rival.name].append(rate)
            cpu[rival.name].append(milliseconds)
        size = Size(sizes.generations)
        before = place.cpu()
        made = bench.run(size)
        used = {name: value for name, value in since(before, place.cpu()).items() if name not in RIVALS}
        _, seconds = bench.watch.span([made])
        rates["ours"].append(size.total / seconds)
        cpu["ours"].append(sum(used.values()) / size.total * 1000)
        for name, value in used.items():
            shares[name] = shares.get(name, 0.0) + value / size.total * 1000 / sizes.rounds
        turns += bench.watch.turns([made])
    bench.stop()
    ratios = {name: paired(rates["ours"], rates[name]) for name in RIVALS}
    figures: Figures = {
        "throughput_ratio_vs_celery": ratios["celery"],
        "ratio_vs_celery_without_events": ratios["celery_without_events"],
        "ratio_vs_celery_with_our_settings": ratios["celery_with_our_settings"],
        "cpu_ms_per_episode": round(statistics.median(cpu["ours"]), 2),
        "cpu_ms_per_episode_by_process": {name: round(value, 2) for name, value in shares.items()},
        "cpu_ms_per_celery_task": {name: round(statistics.median(cpu[name]), 2) for name in RIVALS},
        "per_second": {name: [round(rate) for rate in values] for name, values in rates.items()},
        "episodes": sizes.rounds * Size(sizes.generations).total,
    }
    return figures, turns


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of rounds, whose two halves were measured one after the other."""
    return round(statistics.median(own / other for own, other in zip(ours, theirs, strict=True)), 3)


def turn_figures(turns: Sequence[Turn]) -> Figures:
    claimed = sorted(turn.claimed for turn in turns)
    return {
        "turn_p50_ms": round(statistics.median(claimed)),
        "turn_p95_ms": round(float(np.percentile(claimed, 95))),
        "turns": len(claimed),
        "dimension": DIMENSION,
    }


def generations(bench: Bench) -> Figures:
    """Time a generation whose calls take 200 ms, 64 at a time, against calls packed without a gap."""
    words = ["--latency-ms", str(CALL_SECONDS * 1000), "--turns", str(ASKED_TURNS)]
    bench.start(*words)
    size = Size(bench.sizes.waiting_generations, turns=MOST_TURNS)
    made = bench.run(size)
    count, seconds = bench.watch.span([made])
    calls, _ = bench.watch.calls([made])
    ideal = calls * CALL_SECONDS / SLOTS / count
    bench.stop()
    return {
        "generation_ratio_vs_ideal": round(seconds / count / ideal, 3),
        "generation_s": round(seconds / count, 2),
        "ideal_s": round(ideal, 2),
        "calls_per_episode": round(calls / size.total, 2),
        "generations": count,
    }


def growth(bench: Bench) -> tuple[Figures, list[Turn]]:
    """Measure turns with more and more generations stored; return figures and turns."""
    bench.start()
    turns: dict[int, list[Turn]] = {}
    cold: dict[int, float] = {}
    for stored in bench.sizes.stored:
        bench.history.steps(stored)
        submitted = time.monotonic()
        made = bench.submit(Size(bench.sizes.growth_turns + 1, stored=stored))
        wait_until(partial(opened, bench, made, stored), 600, "the search to be rebuilt")
        cold[stored] = round(time.monotonic() - submitted, 1)
        bench.watch.wait_for_end([made])
        turns[stored] = bench.watch.turns([made], stored)
    bench.stop()
    middle = {stored: statistics.median(turn.claimed for turn in found) for stored, found in turns.items()}
    figures: Figures = {
        "growth_ratio": round(middle[max(middle)] / middle[min(middle)], 3),
        "turn_p50_ms_by_stored_generations": {stored: round(value) for stored, value in middle.items()},
        "cold_start_s_by_stored_generations": cold,
    }
    return figures, [turn for found in turns.values() for turn in found]


def opened(bench: Bench, made: CampaignId, number: int) -> bool:
    return bool(bench.watch.rows("select 1 from generation where campaign_id = %s and number = %s", (made, number)))


def many(bench: Bench) -> Figures:
    """Measure turns with many campaigns running and a free slot for every episode, so that no turn waits for one."""
    size, campaigns = Size(3, replicates=1), bench.sizes.campaigns
    slots = campaigns * size.episodes
    bench.start("--latency-ms", str(LONG_CALL_SECONDS * 1000), slots=slots)
    made = []
    for _ in range(campaigns):
        made.append(bench.submit(size))
        time.sleep(LONG_CALL_SECONDS / campaigns)  # else all turns would come at once
    bench.watch.wait_for_end(made)
    found = turn_figures(bench.watch.turns(made))
    bench.stop()
    return {f"{name}_with_{campaigns}_campaigns": value for name, value in found.items() if name.startswith("turn")}
