"""Cost of the search itself at the paper's dimension: ask, tell, storing a generation, rebuilding it by replay."""

from __future__ import annotations

import statistics
import time

from bench.queue_campaigns import DIMENSION, Size
from bench.queue_history import SIGMA
from bench.queue_parts import POPULATION, SEED, Bench, Figures
from bench.queue_processes import cpu_seconds
from services.core.ids import CampaignId
from services.core.optimiser.ports import Search
from services.core.optimiser.replay import replay
from services.core.optimiser.sep_cma_es import SepCmaEs, library_version
from services.core.states import CandidateKind, GenerationKind
from services.storage import campaign_states, generations, leadership
from services.storage.binary import unpack64
from services.storage.records import CandidateScore, NewCandidate

GENERATIONS = 20
KEPT = """
select avg(pg_column_size(g.*) + (select sum(pg_column_size(c.*)) from candidate c where c.generation_id = g.id))::float
from generation g where g.campaign_id = %s and g.state = 'closed'
"""
ON_DISK = "select pg_total_relation_size('generation') + pg_total_relation_size('candidate')"


def search(bench: Bench) -> Figures:
    """Return the figures; no scheduler may run meanwhile."""
    steps = bench.history.steps(max(GENERATIONS, *bench.sizes.replays))
    made = bench.submit(Size(GENERATIONS))
    with bench.database.transaction() as conn:
        epoch = leadership.take_office(conn, "bench")
        campaign_states.start(conn, made, epoch)
    one = SepCmaEs(SEED, DIMENSION, POPULATION, SIGMA)
    asked, told, stored = [], [], []
    disk = bench.watch.rows(ON_DISK)[0][0]
    postgres = cpu_seconds(bench.place.servers["postgres"])
    for number, step in enumerate(steps[:GENERATIONS]):
        start = time.process_time()
        one.ask()
        after_ask = time.process_time()
        store(bench, made, epoch, number, one, step.fitness)
        after_store = time.process_time()
        one.tell(unpack64(step.fitness))
        told.append(time.process_time() - after_store)
        asked.append(after_ask - start)
        stored.append(after_store - after_ask)
    postgres = cpu_seconds(bench.place.servers["postgres"]) - postgres
    disk = bench.watch.rows(ON_DISK)[0][0] - disk
    return {
        "ask_cpu_ms": milliseconds(asked),
        "tell_cpu_ms": milliseconds(told),
        "store_cpu_ms": round(milliseconds(stored) + postgres / GENERATIONS * 1000, 1),
        "kept_bytes_per_generation": round(bench.watch.rows(KEPT, (made,))[0][0]),
        "disk_bytes_per_generation_before_vacuum": round(disk / GENERATIONS),
        **replays(bench),
    }


def store(bench: Bench, made: CampaignId, epoch: int, number: int, one: Search, fitness: bytes) -> None:
    """Open a generation with its vectors, without episodes, and close it."""
    samples = one.ask()
    with bench.database.transaction() as conn:
        opened = generations.open_generation(
            conn,
            made,
            epoch=epoch,
            number=number,
            kind=GenerationKind.TRAINING,
            mean=one.mean,
            sigma=one.sigma,
            checksum=one.checksum(),
            candidates=[NewCandidate(CandidateKind.SAMPLE, index, theta) for index, theta in enumerate(samples)],
            episodes=[],
        )
    scores = [CandidateScore(CandidateKind.SAMPLE, index, 0.5, index) for index in range(POPULATION)]
    with bench.database.transaction() as conn:
        generations.close(
            conn, opened, epoch=epoch, fitness=unpack64(fitness), scores=scores, summary={"mean_fitness": 0.5}
        )


def replays(bench: Bench) -> Figures:
    """Rebuild searches from fitness vectors; a checksum that is not met to the last bit would raise."""
    seconds: dict[int, float] = {}
    for count in bench.sizes.replays:
        steps = bench.history.steps(count)
        before = time.process_time()
        fitness = [unpack64(step.fitness) for step in steps]
        first = SepCmaEs(SEED, DIMENSION, POPULATION, SIGMA)
        again = replay(first, fitness, [step.checksum for step in steps], library_version())
        seconds[count] = round(time.process_time() - before, 1)
        if again.generation != count:
            raise RuntimeError(f"the replay of {count} generations ended at {again.generation}")
    return {"replay_cpu_s": seconds, "replay_bit_equal": True}


def milliseconds(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)
