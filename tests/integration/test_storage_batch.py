"""Operations in a batch end as they would alone, can be repeated, and stand in nobody's way."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

import pytest

from services.core.campaign import BudgetLimits
from services.core.errors import AttemptInterrupted, BudgetExhausted, LeaseLost
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.storage import batch, campaign_states
from services.storage.engine import Database
from services.storage.operations import Claim, Operation, Reserve, Result, Score, Settle
from services.storage.records import ClaimedEpisode, Settlement
from tests.support.storage import Scene, query, scene, worker_turn
from tests.support.threads import at_once

TOKENS = count()


def apply(database: Database, *operations: Operation) -> list[Result]:
    with database.transaction() as conn:
        return batch.apply(conn, operations)


def claims(made: Scene, places: range) -> list[ClaimedEpisode]:
    results = apply(made.database, *(claim_of(made, place) for place in places))
    assert all(isinstance(result, ClaimedEpisode) for result in results)
    return [result for result in results if isinstance(result, ClaimedEpisode)]


def claim_of(made: Scene, place: int) -> Claim:
    return Claim(made.episodes[place], f"w#{next(TOKENS)}", "w", 60.0)


def reserve_of(claim: ClaimedEpisode, *, turn: int = 1, tokens: int = 100, usd: str = "0.01") -> Reserve:
    return Reserve(claim, turn, 1, 0, "gpt", Role.WORKER, tokens, Decimal(usd), 60.0)


def settle_of(claim: ClaimedEpisode, call: Any) -> Settle:
    return Settle(call, claim.campaign_id, Settlement(Usage(10, 5), Decimal("0.002"), 0.1))


def money(database: Database) -> list[tuple[Any, ...]]:
    with database.transaction() as conn:
        return query(
            conn,
            "select calls_started, tokens_charged, tokens_reserved, usd_charged, usd_reserved from campaign",
        )


def test_a_life_in_batches(database: Database) -> None:
    made = scene(database)
    first, second = claims(made, range(2))
    assert (first.attempt, first.owner != second.owner, first.label) == (1, True, first.label)
    calls = apply(database, reserve_of(first), reserve_of(second))
    results = apply(
        database, settle_of(first, calls[0]), Score(first, graded(1.0), "accepted", [worker_turn()]), claim_of(made, 2),
        settle_of(second, calls[1]), reserve_of(second, turn=2),
    )  # fmt: skip
    assert results[0] is True
    assert results[1] is None
    assert isinstance(results[2], ClaimedEpisode)
    assert results[3] is True
    assert isinstance(results[4], int)
    assert money(database) == [(3, 30, 100, Decimal("0.004"), Decimal("0.01"))]
    with database.transaction() as conn:
        assert query(conn, "select worker, outcome from attempt order by episode_id") == [
            ("w", "done"),
            ("w", "running"),
            ("w", "running"),
        ]
        assert query(conn, "select count(*) from turn") == [(1,)]


def test_a_batch_whose_answer_got_lost_can_be_repeated(database: Database) -> None:
    made = scene(database)
    asked = [claim_of(made, place) for place in range(2)]
    first = apply(database, *asked)
    assert apply(database, *asked) == first
    one, two = claims_in(first)
    reservations = [reserve_of(one), reserve_of(two)]
    calls = apply(database, *reservations)
    assert apply(database, *reservations) == calls
    ends: list[Operation] = [settle_of(one, calls[0]), Score(one, graded(0.5), "accepted", [worker_turn()])]
    assert apply(database, *ends) == [True, None]
    before = money(database)
    assert apply(database, *ends) == [False, None]
    assert money(database) == before == [(2, 15, 100, Decimal("0.002"), Decimal("0.01"))]
    with database.transaction() as conn:
        assert query(conn, "select count(*) from attempt") == [(2,)]
        assert query(conn, "select count(*) from event where type = 'episode.scored'") == [(1,)]


def claims_in(results: list[Result]) -> list[ClaimedEpisode]:
    return [result for result in results if isinstance(result, ClaimedEpisode)]


def test_one_message_twice_in_a_batch_is_one_claim(database: Database) -> None:
    made = scene(database)
    results = apply(database, claim_of(made, 0), claim_of(made, 0), claim_of(made, 1))
    assert sorted(result is None for result in results) == [False, False, True]
    with database.transaction() as conn:
        assert query(conn, "select count(*) from attempt") == [(2,)]


def test_errors_are_each_operations_own(database: Database) -> None:
    made, other = scene(database), scene(database)
    good, lost = claims(made, range(2))
    (paused,) = claims(other, range(1))
    with database.transaction() as conn:
        campaign_states.pause(conn, other.campaign, "a test")
    stale = replace(lost, attempt=7)
    results = apply(
        database, reserve_of(good), reserve_of(stale), reserve_of(paused), Score(stale, graded(1.0), "accepted", []),
        Score(lost, graded(0.0), "accepted", []), claim_of(other, 1),
    )  # fmt: skip
    assert isinstance(results[0], int)
    assert [type(result) for result in results[1:4]] == [LeaseLost, AttemptInterrupted, LeaseLost]
    assert results[4:] == [None, None]


@pytest.mark.parametrize(
    ("limits", "scope"),
    [
        (BudgetLimits(100, tokens=250), "tokens"),
        (BudgetLimits(100, usd=Decimal("0.025")), "USD"),
        (BudgetLimits(100, calls=2), "calls"),
    ],
)
def test_a_batch_takes_what_fits_and_refuses_the_rest(database: Database, limits: BudgetLimits, scope: str) -> None:
    made = scene(database, limits=limits)
    held = claims(made, range(4))
    results = apply(database, *(reserve_of(claim) for claim in held))
    assert [isinstance(result, int) for result in results] == [True, True, False, False]
    assert {result.scope for result in results if isinstance(result, BudgetExhausted)} == {scope}


def test_a_small_call_behind_a_large_one_is_not_refused(database: Database) -> None:
    made = scene(database, limits=BudgetLimits(100, tokens=250))
    held = claims(made, range(3))
    wanted = [reserve_of(held[0]), reserve_of(held[1], tokens=200), reserve_of(held[2], tokens=150)]
    results = apply(database, *wanted)
    assert [isinstance(result, int) for result in results] == [True, False, True]


def test_money_that_comes_free_in_a_batch_is_there_for_its_reservations(database: Database) -> None:
    made = scene(database, limits=BudgetLimits(100, tokens=115))
    one, two = claims(made, range(2))
    (call,) = apply(database, reserve_of(one))
    assert isinstance(apply(database, reserve_of(two))[0], BudgetExhausted)
    assert isinstance(apply(database, reserve_of(two), settle_of(one, call))[0], int)


def test_a_reward_outside_of_its_range_undoes_the_batch(database: Database) -> None:
    made = scene(database)
    one, two = claims(made, range(2))
    with pytest.raises(ValueError, match="a reward lies in"):
        apply(database, Score(one, graded(1.0), "accepted", []), Score(two, graded(1.5), "accepted", []))
    with database.transaction() as conn:
        assert query(conn, "select count(*) from episode where state = 'scored'") == [(0,)]


def test_batches_over_several_campaigns_do_not_deadlock(database: Database) -> None:
    """Eight workers deliver every message twice, in their own order, and play what they get."""
    scenes = [scene(database, candidates=4, replicates=8, name=f"c{number}") for number in range(3)]

    def work(number: int) -> int:
        random, scored = Random(number), 0
        wanted = [(made, place) for made in scenes for place in range(32)] * 2
        random.shuffle(wanted)
        for start in range(0, len(wanted), 24):
            held = claims_in(apply(database, *(claim_of(*each) for each in wanted[start : start + 24])))
            calls = apply(database, *(reserve_of(claim, tokens=1, usd="0.0001") for claim in held))
            ends = [settle_of(claim, call) for claim, call in zip(held, calls, strict=True)]
            scores = [Score(claim, graded(1.0), "accepted", [worker_turn()]) for claim in held]
            mixed: list[Operation] = [*ends, *scores]
            random.shuffle(mixed)
            scored += sum(result is None for result in apply(database, *mixed))
        return scored

    assert sum(at_once(8, work)) == 96
    with database.transaction() as conn:
        assert query(conn, "select count(*), count(distinct episode_id) from attempt where outcome = 'done'") == [
            (96, 96)
        ]
        assert query(conn, "select sum(calls_started), sum(usd_reserved) from campaign") == [(96, Decimal(0))]
