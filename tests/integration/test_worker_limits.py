"""Workers share the limits of a model and leave one alone that is dead; what waits can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from services.core.campaign import EvaluationSpec, ModelLimits, ModelSpec, SearchSpec, ValidationSpec
from services.core.errors import AttemptInterrupted, NetworkFailed, PoolError, ProviderUnavailable, RateLimited
from services.core.ledger.usage import Usage
from services.core.limits.breaker import OPENS_AFTER, WAITED_OUT, BreakerState
from services.core.limits.meter import meter_of
from services.core.limits.window import COUNTED_SECONDS, MINUTE_SECONDS
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import Role
from services.core.states import CampaignState
from services.pool.retry import RetryPolicy
from services.storage import campaign_states, limits
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from services.telemetry import logs
from tests.support.auditing import assert_clean
from tests.support.campaigns import PRICE, small_campaign
from tests.support.fault_doubles import StubPool, submit
from tests.support.faults import Stage, hurry
from tests.support.outcomes import outcome_of, same_outcome
from tests.support.storage import query, scene
from tests.support.stub_models import USAGE
from tests.support.threads import at_once
from tests.support.virtual_time import PatientLease, VirtualTime
from tests.support.waiting import wait_for
from worker import counts
from worker.calls import MeteredCalls
from worker.leases import Lease
from worker.writer import Writer

__all__ = ["hurry"]

LIMIT, CALLS = 60, 200
MODEL = ModelSpec("gpt", "openai/gpt", PRICE, limits=ModelLimits(requests_per_minute=LIMIT))
MESSAGES = [Message("user", "What is 1 + 1?")]
LOG = logs.logger("test")


@dataclass
class Provider:
    """Answers at once and notes when it was asked."""

    clock: VirtualTime
    arrivals: list[float] = field(default_factory=list)

    def complete(self, agent: int, messages: Sequence[Message], **_: object) -> Reply:
        self.arrivals.append(self.clock.now())
        return Reply("<answer>2</answer>", "stop", USAGE, 0.0)


def test_two_workers_share_a_limit_that_is_never_passed_and_is_used(database: Database, database_url: str) -> None:
    made = scene(database)
    clock = VirtualTime(database, threads=2)
    provider = Provider(clock)
    campaign = small_campaign(pool=(MODEL,))

    def work(number: int) -> None:
        claim = made.claim(number, owner=f"w{number}", lease_seconds=3600.0)
        lease = PatientLease(claim, 3600.0, time.monotonic(), clock=clock)
        own = Database(database_url, application_name=f"worker {number}", pool_size=1)
        with Writer(own, 60.0, LOG) as writer:
            calls = MeteredCalls(writer, provider, campaign, lease, time.monotonic() + 60.0, RetryPolicy(tries=1))
            for turn in range(1, CALLS // 2 + 1):
                calls(turn=turn, agent=0, role=Role.WORKER, messages=MESSAGES)
            clock.leave()
            calls.settled()
        own.close()

    at_once(2, work)
    arrivals = sorted(provider.arrivals)
    assert len(arrivals) == CALLS
    for first, beyond in zip(arrivals, arrivals[LIMIT:], strict=False):
        assert beyond - first > MINUTE_SECONDS
    used = max(sum(start <= at < start + MINUTE_SECONDS for at in arrivals) for start in arrivals)
    assert used >= 57
    assert arrivals[-1] - arrivals[0] < (CALLS // LIMIT) * COUNTED_SECONDS + 10.0, "the limit is used all the time"
    with database.transaction() as conn:
        assert query(conn, "select count(*), count(error_kind), sum(try) from llm_call") == [(CALLS, 0, CALLS)]
        assert query(conn, "select tokens_reserved, usd_reserved from campaign") == [(0, 0)]


def test_whoever_waits_for_a_limit_stops_at_once_when_told_and_holds_nothing(database: Database) -> None:
    made = scene(database)
    claim = made.claim(lease_seconds=600.0)
    lease = Lease(claim, 600.0, time.monotonic())
    campaign = small_campaign(pool=(replace(MODEL, limits=ModelLimits(requests_per_minute=1)),))
    raised: list[BaseException] = []
    with Writer(database, 60.0, LOG) as writer:
        pool = Provider(VirtualTime(database, 1))
        calls = MeteredCalls(writer, pool, campaign, lease, time.monotonic() + 60.0, RetryPolicy())

        def work() -> None:
            try:
                for turn in (1, 2):
                    calls(turn=turn, agent=0, role=Role.WORKER, messages=MESSAGES)
            except AttemptInterrupted as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        wait_for(lambda: calls.counts.read()[counts.WAITED] > 0, seconds=20, what="the second call to wait")
        lease.interrupt("paused")
        thread.join(20)
        assert "paused" in str(raised[0])
        assert len(pool.arrivals) == 1
        with database.transaction() as conn:
            assert query(conn, "select tokens_reserved, calls_started from campaign") == [(0, 1)]


@dataclass
class Refusing(Provider):
    """Refuses every call with the same error, but the last one."""

    error: PoolError = field(default_factory=lambda: RateLimited("slow down", retry_after_seconds=1.0))
    answers_from: int = 2

    def complete(self, agent: int, messages: Sequence[Message], **settings: object) -> Reply:
        reply = super().complete(agent, messages, **settings)
        if len(self.arrivals) < self.answers_from:
            raise self.error
        return reply


def test_a_provider_that_asks_for_a_pause_has_it_from_all_episodes(database: Database) -> None:
    made = scene(database)
    one, other = (made.claim(number, owner=f"w{number}", lease_seconds=600.0) for number in (0, 1))
    campaign, pool = small_campaign(pool=(replace(MODEL, limits=ModelLimits()),)), Refusing(VirtualTime(database, 1))
    with Writer(database, 60.0, LOG) as writer:

        def calls_of(claim: ClaimedEpisode) -> MeteredCalls:
            lease = Lease(claim, 600.0, time.monotonic())
            return MeteredCalls(writer, pool, campaign, lease, time.monotonic() + 60.0, RetryPolicy(tries=1))

        first, second = calls_of(one), calls_of(other)
        asked_at = time.monotonic()
        with pytest.raises(RateLimited):
            first(turn=1, agent=0, role=Role.WORKER, messages=MESSAGES)
        first.settled()
        assert second(turn=1, agent=0, role=Role.WORKER, messages=MESSAGES).text
        second.settled()
        assert time.monotonic() - asked_at >= 1.0
        assert second.counts.read()[counts.WAITED] > 0
    assert len(pool.arrivals) == 2
    with database.transaction() as conn:
        assert query(conn, "select tokens_reserved, calls_started from campaign") == [(0, 2)]


def test_a_reply_that_broke_off_is_booked_at_what_had_come(database: Database) -> None:
    made = scene(database)
    cut = NetworkFailed("cut", billed_unknown=True)
    cut.received = Usage(40, 9, estimated=True)
    pool = Refusing(VirtualTime(database, 1), error=cut)
    campaign = small_campaign(pool=(MODEL,))
    with Writer(database, 60.0, LOG) as writer:
        lease = Lease(made.claim(lease_seconds=600.0), 600.0, time.monotonic())
        calls = MeteredCalls(writer, pool, campaign, lease, time.monotonic() + 60.0, RetryPolicy(tries=1))
        with pytest.raises(NetworkFailed):
            calls(turn=1, agent=0, role=Role.WORKER, messages=MESSAGES)
        calls.settled()
    with database.transaction() as conn:
        booked = "select state, estimated, prompt_tokens, completion_tokens, cost_usd, error_kind from llm_call"
        assert query(conn, booked) == [("settled", True, 40, 9, PRICE.cost(cut.received), "NetworkFailed")]
        assert query(conn, "select tokens_charged, tokens_reserved from campaign") == [(49, 0)]


@dataclass
class OneDead(StubPool):
    """The last of three models never answers, for as long as ``dead`` is set."""

    dead: bool = True
    knocked: int = 0

    def complete(self, agent: int, messages: Sequence[Message], **settings: object) -> Reply:
        if agent == 2:
            if self.dead:
                self.knocked += 1
                raise ProviderUnavailable("carl: the connection failed")
            agent = 1
        return super().complete(agent, messages, **settings)  # type: ignore[arg-type]


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database, pool=OneDead())
    yield made
    made.close()


def test_one_dead_model_of_three_ends_the_run_and_nothing_else(stage: Stage) -> None:
    names = ("ada", "bob", "carl")
    pool = tuple(ModelSpec(name, f"openai/{name}", PRICE, base_url="local:three") for name in names)
    spec = small_campaign(
        pool=pool,
        protocol=replace(small_campaign().protocol, max_turns=1, roles=(Role.WORKER,)),
        search=SearchSpec(population=10, replicates=6, generations=1, sigma0=0.5),
        validation=ValidationSpec(every=1, problems=0),
        evaluation=EvaluationSpec(problems=0),
        max_failure_share=0.9,
    )
    campaign = submit(stage.look, replace(spec, name="dead"), max_attempts=3)
    assert stage.play(campaign) is CampaignState.PAUSED
    assert isinstance(stage.pool, OneDead)
    assert OPENS_AFTER + WAITED_OUT <= stage.pool.knocked <= OPENS_AFTER + stage.hurried, "then it was only tried"
    with stage.look.transaction() as conn:
        by_kind = dict(query(conn, "select failure_kind, count(*) from episode where state = 'failed' group by 1"))
        others = query(conn, "select count(*), count(error_kind) from llm_call where agent < 2")
        found = {each.key: each for each in limits.health(conn)}
        assert query(conn, "select count(*) from episode where state = 'failed' and reward is not null") == [(0,)]
    assert by_kind.keys() <= {"CircuitOpen", "ProviderUnavailable"}
    assert "CircuitOpen" in stage.stops[-1]
    assert others[0][0] > 20
    assert others[0][1] == 0
    assert found[meter_of(pool[2]).key].breaker is BreakerState.OPEN
    assert found[meter_of(pool[2]).key].errors == stage.pool.knocked
    stage.pool.dead = False
    with stage.look.transaction() as conn:
        campaign_states.resume(conn, campaign)
    assert stage.play(campaign) is CampaignState.COMPLETED, "resuming tries it at once"
    calm = submit(stage.look, replace(spec, name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    same_outcome(stage.look, campaign, outcome_of(stage.look, calm))
    assert_clean(stage.look)


def test_a_short_outage_is_waited_out_without_failures(stage: Stage) -> None:
    spec = small_campaign(name="short")
    failures = 2 * OPENS_AFTER + 2  # both models open, and one or both fail the first try

    def trouble(number: int) -> None:
        if 10 < number <= 10 + failures:
            raise ProviderUnavailable("away")

    assert isinstance(stage.pool, OneDead)
    stage.pool.trouble = trouble
    campaign = submit(stage.look, spec)
    assert stage.play(campaign) is CampaignState.COMPLETED, stage.stops
    with stage.look.transaction() as conn:
        outcomes = dict(query(conn, "select outcome, count(*) from attempt group by 1"))
        assert query(conn, "select count(*) from llm_call where error_kind is not null") == [(failures,)]
    assert outcomes["returned"] > 5
    assert outcomes["failed"] <= failures
    assert_clean(stage.look)
