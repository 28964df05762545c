"""What a campaign is read with: recorded by its first worker, binding for every other one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from services.core.campaign import EncoderSpec, ProtocolSpec
from services.core.fingerprint import Fingerprint
from services.core.protocol.roles import Role
from services.storage import readings
from services.storage.engine import Database
from tests.support.campaigns import small_campaign
from tests.support.stub_models import StubEncoder, StubPool, fingerprint
from tests.support.threads import at_once
from tests.support.worker import Bench, bench_of
from worker.episode import run
from worker.runtime import Recent, Runtime

pytestmark = pytest.mark.usefixtures("ends_clean")


@dataclass(frozen=True)
class Reader(StubEncoder):
    """An encoder that reads with whatever it is told, and counts who asks."""

    reading: Fingerprint
    asked: list[int]

    def fingerprint(self) -> Fingerprint:
        self.asked.append(1)
        return self.reading


@dataclass
class Readers:
    reading: Fingerprint = field(default_factory=fingerprint)
    asked: list[int] = field(default_factory=list)

    def encoder(self, spec: EncoderSpec, pool_size: int) -> Reader:
        return Reader(4, self.reading, self.asked)

    def close(self) -> None:
        return


@contextmanager
def opened(database: Database, readers: Readers) -> Iterator[Bench]:
    campaign = small_campaign(protocol=ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64))
    with bench_of(database, campaign, readers, StubPool) as bench:
        yield bench


def another(bench: Bench, **changes: object) -> Runtime:
    """Return a second worker's runtime, whose encoder reads otherwise."""
    return replace(bench.runtime, encoders=Readers(fingerprint(**changes)), owner="another", _readers=Recent(64))


def recorded(bench: Bench) -> Fingerprint | None:
    with bench.database.transaction() as conn:
        return readings.of_campaign(conn, bench.campaign_id)


def test_the_first_worker_records_it_and_asks_once(database: Database) -> None:
    readers = Readers()
    with opened(database, readers) as bench:
        assert recorded(bench) is None
        for place in range(4):
            bench.run(place)
        assert recorded(bench) == readers.reading
        assert len(readers.asked) == 1
        run(another(bench, model="moved elsewhere"), bench.episodes[4])
        assert [bench.episode(place)[0] for place in range(5)] == ["scored"] * 5
        assert recorded(bench) == readers.reading


def test_a_worker_that_reads_otherwise_fails_for_good_and_names_what_differs(database: Database) -> None:
    with opened(database, Readers()) as bench:
        bench.run(0)
        other = another(bench, weights="1" * 64, position="last")
        for place in (1, 2):
            run(other, bench.episodes[place])
            assert bench.episode(place) == ("failed", None, 1, "SpecError")
        details = bench.query("SELECT failure_detail FROM episode WHERE state = 'failed'")
        assert {detail.partition(": ")[0] for (detail,) in details} == {"encoder.weights, encoder.position"}
        assert recorded(bench) == fingerprint()
        bench.run(3)
        assert bench.episode(3)[0] == "scored"


def test_of_two_first_workers_one_binds_the_other(database: Database) -> None:
    with opened(database, Readers()) as bench:
        runtimes = [bench.runtime, another(bench, template="2" * 64)]
        at_once(2, lambda place: run(runtimes[place], bench.episodes[place]))
        assert sorted(bench.episode(place)[0] for place in range(2)) == ["failed", "scored"]
        scored = next(place for place in range(2) if bench.episode(place)[0] == "scored")
        assert recorded(bench) == (fingerprint(), fingerprint(template="2" * 64))[scored]
