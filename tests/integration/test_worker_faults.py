"""Episodes on a real Postgres under faults: duplicates, lost leases, outages, poison; stand-ins for model and pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from services.core.campaign import Campaign, ProtocolSpec
from services.core.errors import DatabaseUnavailable, LeaseLost, RateLimited
from services.core.ids import EpisodeId
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.storage import batch, campaign_states
from services.storage.engine import Connection, Database
from services.storage.operations import Claim, Operation, Result, Score
from tests.support.campaigns import small_campaign
from tests.support.postgres import outage
from tests.support.stub_models import StubBehaviour, StubEncoders, StubPool
from tests.support.threads import at_once
from tests.support.worker import Bench, bench_of

pytestmark = pytest.mark.usefixtures("ends_clean")

CALLS = "SELECT state, count(*) FROM llm_call GROUP BY state ORDER BY state"
BALANCE = """
SELECT c.usd_charged - coalesce(sum(e.usd), 0), c.usd_reserved, c.tokens_reserved
FROM campaign c LEFT JOIN ledger_entry e ON e.campaign_id = c.id AND e.kind = 'charge' GROUP BY c.id
"""


@dataclass
class Pool:
    """The stub pool with something that happens at each call, told its number from 1."""

    campaign: Campaign
    happens: Callable[[int], object]
    calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, agent: int, messages: Sequence[Message], **settings: Any) -> Reply:
        with self._lock:
            self.calls += 1
            number = self.calls
        self.happens(number)
        return StubPool(self.campaign, StubBehaviour()).complete(agent, messages, **settings)


Opener = Callable[..., Any]


@pytest.fixture
def bench(database: Database) -> Opener:
    @contextmanager
    def opened(
        happens: Callable[[int], object] = lambda number: None, turns: int = 1, **changes: Any
    ) -> Iterator[Bench]:
        protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=turns, max_output_tokens=64)
        campaign = small_campaign(protocol=protocol)
        with bench_of(
            database, campaign, StubEncoders(lambda: 4), lambda resolved: Pool(resolved, happens), **changes
        ) as at:
            yield at

    return opened


def assert_played_once(at: Bench, turns: int = 1) -> None:
    state, _, attempt, _ = at.episode()
    assert (state, attempt) == ("scored", 1)
    assert at.query("SELECT outcome FROM attempt") == [("done",)]
    assert at.query("SELECT count(*) FROM turn") == [(turns,)]
    assert at.query(CALLS) == [("settled", turns)]
    assert at.query(BALANCE) == [(0, 0, 0)]


def test_a_message_delivered_many_times_at_once_makes_one_attempt(bench: Opener) -> None:
    with bench(lambda number: time.sleep(0.2)) as at:
        at_once(8, lambda _: at.run())
        assert_played_once(at)


def test_a_late_result_is_refused_and_its_money_is_counted(bench: Opener, database: Database) -> None:
    def lose(_: int) -> None:
        with database.transaction() as conn:
            conn.exec_driver_sql("UPDATE episode SET lease_owner = 'another' WHERE state = 'running'")

    with bench(lose) as at:
        at.run()
        assert at.episode()[:3] == ("running", None, 1)
        assert at.query("SELECT count(*) FROM turn") == [(0,)]
        assert at.query(CALLS) == [("settled", 1)]
        assert at.query(BALANCE) == [(0, 0, 0)]


@contextmanager
def passing_outage(url: str, seconds: float) -> Iterator[None]:
    """Take the database away at once and bring it back after a while, whether or not the block has ended."""
    with ExitStack() as stack:
        stack.enter_context(outage(url))
        timer = threading.Timer(seconds, stack.pop_all().close)
        timer.start()
        try:
            yield
        finally:
            timer.join()


def test_an_episode_outlives_the_database_going_away_during_its_call(bench: Opener, database_url: str) -> None:
    with ExitStack() as faults:

        def away(number: int) -> None:
            if number == 1:
                faults.enter_context(passing_outage(database_url, 2.0))

        with bench(away, turns=2) as at:
            at.run()
            assert_played_once(at, turns=2)


def test_a_claim_waits_for_the_database(bench: Opener, database_url: str) -> None:
    with bench() as at, passing_outage(database_url, 1.5):
        at.run()
        assert_played_once(at)


def test_a_failure_is_recorded_once_after_an_outage(bench: Opener, database_url: str) -> None:
    with ExitStack() as faults:

        def break_down(_: int) -> None:
            faults.enter_context(passing_outage(database_url, 1.5))
            raise RuntimeError("broken down")

        with bench(break_down) as at:
            at.run()
            assert at.episode()[:3] == ("pending", None, 1)
            assert at.query("SELECT outcome, error_kind FROM attempt") == [("failed", "RuntimeError")]
            assert at.query(CALLS) == [("unknown", 1)], "nobody knows what it cost"
            assert at.query(BALANCE) == [(0, 0, 0)]


@dataclass
class Deaf:
    """A database whose every first answer to a transaction gets lost after the commit."""

    database: Database
    asked: int = 0

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.database.transaction() as conn:
            yield conn
        self.asked += 1
        if self.asked % 2:
            raise DatabaseUnavailable("the answer got lost", "ask again")


def test_an_answer_that_gets_lost_after_the_commit_doubles_nothing(bench: Opener, database: Database) -> None:
    deaf = Deaf(database)
    with bench(turns=2, writing=cast(Database, deaf)) as at:
        at.run()
        assert deaf.asked >= 8, "every batch went to the database twice"
        assert_played_once(at, turns=2)


def test_a_pause_stops_the_attempt_between_its_calls(bench: Opener) -> None:
    bench_of_it: list[Bench] = []

    def pause(_: int) -> None:
        at = bench_of_it[0]
        with at.database.transaction() as conn:
            campaign_states.pause(conn, at.campaign_id, "by hand")
        assert at.runtime.held.beat()
        assert [lease.claim.episode_id for lease in at.runtime.held.all()] == [at.episodes[0]]

    with bench(pause, turns=3) as at:
        bench_of_it.append(at)
        at.run()
        assert at.episode()[:2] == ("pending", None)
        assert at.query("SELECT outcome FROM attempt") == [("returned",)]
        assert at.query(CALLS) == [("settled", 1)], "the call under way was settled at its cost"
        assert at.query(BALANCE) == [(0, 0, 0)]
        assert at.runtime.held.all() == []


def test_a_cancel_ends_the_wait_between_two_tries(bench: Opener) -> None:
    asked = threading.Event()

    def slow_down(_: int) -> None:
        asked.set()
        raise RateLimited("later", retry_after_seconds=50.0)

    with bench(slow_down, heartbeat_seconds=0.1) as at:
        at.runtime.held.start()
        playing = threading.Thread(target=at.run)
        playing.start()
        assert asked.wait(30)
        with at.database.transaction() as conn:
            campaign_states.cancel(conn, at.campaign_id, "by hand")
        playing.join(15)
        assert not playing.is_alive()
        assert at.episode()[0] == "cancelled"
        assert at.query(CALLS) == [("settled", 1)], "a refused request is free"
        at.runtime.held.stop()


def test_an_attempt_without_heartbeats_stops_when_its_lease_must_be_gone(bench: Opener) -> None:
    with bench(lambda number: time.sleep(1.2), turns=3, lease_seconds=1.0) as at:
        at.run()
        assert at.query(CALLS) == [("settled", 1)], "no further call"
        assert at.episode()[:2] == ("pending", None), "handed back, as nobody else had taken it yet"
        assert at.query("SELECT outcome FROM attempt") == [("returned",)]


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_an_episode_raises_is_a_failed_attempt(bench: Opener, kind: type[BaseException]) -> None:
    def fall(_: int) -> None:
        raise kind("fell")

    with bench(fall) as at:
        at.run()
        assert at.episode()[:3] == ("pending", None, 1)
        assert at.query("SELECT outcome, error_kind FROM attempt") == [("failed", kind.__name__)]
        assert at.runtime.held.all() == [], "its slot is free"


def test_an_operation_that_the_database_refuses_fails_alone(bench: Opener) -> None:
    gate, entered = threading.Event(), threading.Event()

    def gated(conn: Connection, operations: Sequence[Operation]) -> list[Result]:
        if isinstance(operations[0], Score):
            entered.set()
            assert gate.wait(30)
        return batch.apply(conn, operations)

    with bench(apply=gated) as at:
        writer = at.runtime.writer
        mine = [writer.do(Claim(number, f"w#{number}", "w", 60.0)) for number in at.episodes[:4]]
        rewards = (1.0, 0.0, float("nan"), 1.0)
        scores = [
            Score(claim, graded(reward), "turn_limit", ()) for claim, reward in zip(mine, rewards, strict=True) if claim
        ]
        pending = [writer.post(scores[0])]
        assert entered.wait(30)
        pending += [writer.post(score) for score in scores[1:]]
        gate.set()
        for place in (0, 1, 3):
            pending[place].result()
        with pytest.raises(ValueError, match="reward"):
            pending[2].result()
        states = at.query("SELECT state FROM episode WHERE attempt > 0 ORDER BY id")
        assert states == [("scored",), ("scored",), ("running",), ("scored",)]


def test_a_claim_that_succeeds_while_the_worker_stops_is_handed_back_at_once(bench: Opener) -> None:
    with bench() as at:
        claim = at.runtime.writer.do

        def stopping(operation: Any) -> Any:
            result = claim(operation)
            at.runtime.stopping.set()
            return result

        at.runtime.writer.do = stopping
        at.run()
        assert at.episode()[:3] == ("pending", None, 1)
        assert at.query("SELECT outcome FROM attempt") == [("returned",)]
        assert at.query("SELECT count(*) FROM llm_call") == [(0,)]


def test_a_lease_lost_to_another_is_not_given_back(bench: Opener, database: Database) -> None:
    def take(_: int) -> None:
        with database.transaction() as conn:
            conn.exec_driver_sql("UPDATE episode SET lease_owner = 'another' WHERE state = 'running'")
        raise LeaseLost(EpisodeId(1), 1)

    with bench(take) as at:
        at.run()
        assert at.episode()[:2] == ("running", None)
