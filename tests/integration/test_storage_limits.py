"""Limits and breakers on real rows: counted exactly, held by nobody who is dead, and no money held by whoever waits."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from services.core.campaign import ModelLimits
from services.core.errors import CircuitOpen, Throttled
from services.core.ledger.usage import Usage
from services.core.limits.breaker import OPENS_AFTER, BreakerState
from services.core.limits.meter import Meter
from services.core.limits.window import COUNTED_SECONDS
from services.core.protocol.roles import Role
from services.storage import batch, limits
from services.storage.engine import Database
from services.storage.operations import Operation, Reserve, Result, Settle
from services.storage.records import ClaimedEpisode, Settlement
from tests.support.storage import query, scene

pytestmark = pytest.mark.usefixtures("ends_clean_of_money")

GPT, OTHER = Meter("gpt-key", "openai/gpt with KEY"), Meter("other-key", "openai/other")
USED = Settlement(Usage(10, 5), Decimal("0.002"), 0.1)
LOST = Settlement(None, Decimal(0), 0.1, error_kind="ProviderUnavailable")


@pytest.fixture
def ends_clean_of_money(database: Database) -> Any:
    yield
    with database.transaction() as conn:
        assert query(conn, "select * from campaign where tokens_reserved < 0 or usd_reserved < 0") == []


def apply(database: Database, *operations: Operation) -> list[Result]:
    with database.transaction() as conn:
        return batch.apply(conn, operations)


def reserve(claim: ClaimedEpisode, turn: int = 1, meter: Meter = GPT, **allowed: int) -> Reserve:
    return Reserve(
        claim, turn, 1, 0, "gpt", Role.WORKER, 100, Decimal("0.01"), 60.0, meter, ModelLimits(**allowed)
    )  # fmt: skip


def settle(claim: ClaimedEpisode, call: Any, how: Settlement = USED, meter: Meter = GPT) -> Settle:
    return Settle(call, claim.campaign_id, how, meter, how.error_kind is None)


def later(database: Database, seconds: float) -> None:
    with database.transaction() as conn:
        query(conn, f"update llm_call set granted_at = granted_at - make_interval(secs => {seconds})")
        query(conn, f"update meter set open_until = open_until - make_interval(secs => {seconds})")


def test_calls_of_two_campaigns_count_together(database: Database) -> None:
    one, two = scene(database), scene(database, epoch=None)
    first, second = one.claim(), two.claim(owner="w2")
    results = apply(database, *(reserve(first, turn, requests_per_minute=3) for turn in (1, 2)))
    results += apply(database, *(reserve(second, turn, requests_per_minute=3) for turn in (1, 2)))
    assert [type(result) for result in results] == [int, int, int, Throttled]
    last = results[3]
    assert isinstance(last, Throttled)
    assert COUNTED_SECONDS - 5 < last.seconds <= COUNTED_SECONDS
    with database.transaction() as conn:
        held = query(conn, "select calls_started, tokens_reserved from campaign order by id")
    assert held == [(2, 200), (1, 100)], "whoever waits holds nothing"
    later(database, COUNTED_SECONDS)
    assert isinstance(apply(database, reserve(second, 2, requests_per_minute=3))[0], int)


def test_another_meter_and_a_call_without_limits_wait_for_nobody(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    results = apply(
        database, reserve(claim, 1, requests_per_minute=1), reserve(claim, 2, OTHER, requests_per_minute=1),
        reserve(claim, 3), reserve(claim, 4, requests_per_minute=1),
    )  # fmt: skip
    assert [type(result) for result in results] == [int, int, int, Throttled]


def test_tokens_count_at_their_bound_until_they_are_known(database: Database) -> None:
    claim = scene(database).claim()
    wanted = [reserve(claim, turn, tokens_per_minute=200) for turn in range(1, 5)]
    first, second, third = apply(database, *wanted[:3])
    assert [type(result) for result in (first, second, third)] == [int, int, Throttled]
    apply(database, settle(claim, first), settle(claim, second))
    assert isinstance(apply(database, wanted[2])[0], int), "30 tokens were used, not 200"
    assert isinstance(apply(database, wanted[3])[0], Throttled)


def test_a_dead_workers_calls_stop_counting_with_its_lease(database: Database) -> None:
    made = scene(database)
    dead, alive = made.claim(0, lease_seconds=60.0), made.claim(1, owner="w2")
    assert isinstance(apply(database, reserve(dead, max_concurrency=1))[0], int)
    waiting = apply(database, reserve(alive, max_concurrency=1))[0]
    assert isinstance(waiting, Throttled)
    with database.transaction() as conn:
        query(conn, f"update episode set lease_expires_at = now() - interval '1 s' where id = {dead.episode_id}")
    assert isinstance(apply(database, reserve(alive, max_concurrency=1))[0], int)


def test_a_call_asked_for_again_is_the_same_and_counts_once_from_then_on(database: Database) -> None:
    claim = scene(database).claim()
    request = reserve(claim, requests_per_minute=1, max_concurrency=1)
    (call,) = apply(database, request)
    later(database, 30.0)
    assert apply(database, request) == [call]
    later(database, 40.0)
    assert isinstance(apply(database, reserve(claim, 2, requests_per_minute=1))[0], Throttled)


def test_a_pause_that_a_provider_asks_for_is_everybodys_and_ends(database: Database) -> None:
    made = scene(database)
    claim, other = made.claim(0), made.claim(1, owner="w2")
    first, second = apply(database, reserve(claim), reserve(claim, 2))
    slow, slower = (replace(settle(claim, call, LOST), answered=True) for call in (first, second))
    apply(database, replace(slow, rest_seconds=50.0))
    apply(database, replace(slower, rest_seconds=5.0))
    waiting, elsewhere = apply(database, reserve(other), reserve(other, 2, OTHER))
    assert isinstance(waiting, Throttled)
    assert 40 < waiting.seconds <= 51, "the longer pause counts, and a moment of one's own"
    assert isinstance(elsewhere, int), "others are not concerned"
    with database.transaction() as conn:
        assert query(conn, "select sum(calls_started) from campaign") == [(3,)], "whoever waits holds nothing"
        query(conn, "update meter set rest_until = rest_until - interval '60 s'")
    assert isinstance(apply(database, reserve(other))[0], int)


def test_resuming_a_campaign_ends_the_pauses_of_its_models(database: Database) -> None:
    made = scene(database)
    claim = made.claim()
    (call,) = apply(database, reserve(claim))
    apply(database, replace(settle(claim, call, LOST), answered=True, rest_seconds=500.0))
    with database.transaction() as conn:
        limits.try_again(conn, made.campaign)
        assert query(conn, "select rest_until, openings, open_until from meter") == [(None, 0, None)]
    assert isinstance(apply(database, reserve(claim, 2))[0], int)


def fail(database: Database, claim: ClaimedEpisode, turns: range) -> list[Result]:
    calls = []
    for turn in turns:
        (call,) = apply(database, reserve(claim, turn))
        calls.append(call)
        if isinstance(call, int):
            apply(database, settle(claim, call, LOST))
    return calls


def test_a_model_that_fails_is_left_alone_by_all_until_one_call_finds_it_again(database: Database) -> None:
    made = scene(database)
    claim, other = made.claim(0), made.claim(1, owner="w2")
    fail(database, claim, range(1, OPENS_AFTER + 1))
    refused = apply(database, reserve(other), reserve(other, 2, OTHER))
    assert isinstance(refused[0], CircuitOpen)
    assert 20 < refused[0].seconds <= 30
    assert isinstance(refused[1], int), "others are not concerned"
    later(database, 60.0)
    results = apply(database, reserve(other, 3), reserve(other, 4))
    assert [type(result) for result in results] == [int, CircuitOpen], "one tries it"
    assert isinstance(apply(database, reserve(claim, 90))[0], CircuitOpen)
    apply(database, settle(other, results[0]))
    assert isinstance(apply(database, reserve(claim, 91))[0], int)
    with database.transaction() as conn:
        (found,) = [each for each in limits.health(conn) if each.key == GPT.key]
    assert (found.breaker, found.failures, found.calls, found.errors) == (BreakerState.CLOSED, 0, 6, 5)
    assert (found.commonest, found.label) == ("ProviderUnavailable", GPT.label)


def test_a_failed_try_leaves_it_alone_for_longer(database: Database) -> None:
    claim = scene(database).claim()
    fail(database, claim, range(1, OPENS_AFTER + 1))
    later(database, 60.0)
    fail(database, claim, range(50, 51))
    (refused,) = apply(database, reserve(claim, 60))
    assert isinstance(refused, CircuitOpen)
    assert 50 < refused.seconds <= 60


def test_answers_in_between_keep_it_closed(database: Database) -> None:
    claim = scene(database).claim()
    for start in range(1, 40, 10):
        fail(database, claim, range(start, start + OPENS_AFTER - 1))
        (call,) = apply(database, reserve(claim, start + 9))
        assert apply(database, settle(claim, call)) == [True]
    with database.transaction() as conn:
        assert query(conn, "select failures, openings from meter") == [(0, 0)]


def test_a_call_that_says_nothing_about_the_model_changes_nothing(database: Database) -> None:
    claim = scene(database).claim()
    fail(database, claim, range(1, 3))
    (call,) = apply(database, reserve(claim, 9))
    apply(database, replace(settle(claim, call), answered=None))
    with database.transaction() as conn:
        assert query(conn, "select failures from meter") == [(2,)]


def test_a_settlement_that_is_repeated_counts_once(database: Database) -> None:
    claim = scene(database).claim()
    (call,) = apply(database, reserve(claim))
    for _ in range(OPENS_AFTER + 1):
        apply(database, settle(claim, call, LOST))
    with database.transaction() as conn:
        assert query(conn, "select failures from meter") == [(1,)]


def test_health_can_be_asked_for_some_models(database: Database) -> None:
    claim = scene(database).claim()
    apply(database, reserve(claim), reserve(claim, 2, OTHER), replace(reserve(claim, 3), meter=None))
    with database.transaction() as conn:
        assert [each.key for each in limits.health(conn, [OTHER.key])] == [OTHER.key]
        assert {each.key: each.under_way for each in limits.health(conn)} == {GPT.key: 1, OTHER.key: 1}
