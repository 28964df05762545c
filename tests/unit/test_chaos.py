"""The storm's own rules: one seed gives one plan, and the comparison bites."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import islice

import pytest

from tests.chaos.nemesis import KILLS, Fault, plan
from tests.chaos.readings import Attempt, Ledger, Results
from tests.chaos.verdict import Verdict, inconsistent, repeated
from tests.chaos.witness import Bill

BOOKS = Ledger(
    calls=10,
    unknown=2,
    open=0,
    settled=8,
    tokens=1000,
    usd=Decimal("0.5"),
    settled_tokens=700,
    settled_usd=Decimal("0.3"),
    booked=(1000, Decimal("0.5")),
)
LOST = Attempt(episode=1, number=1, worker="host:4711:abc", outcome="lost", error=None, started=100.0, ended=110.0)


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = (list(islice(plan(7, 3.0), 200)) for _ in range(2))
    assert first == second
    assert first != list(islice(plan(8, 3.0), 200))
    done = {fault for step in first for fault in step.faults}
    assert {f"kill {kind}" for kind in KILLS} <= done


@pytest.mark.parametrize(
    "bill",
    [
        Bill(8, 700, Decimal("0.3")),
        Bill(9, 800, Decimal("0.4")),
        Bill(10, 1000, Decimal("0.5")),
    ],
)
def test_a_bill_between_the_sums_without_and_with_unknown_calls_is_consistent(bill: Bill) -> None:
    assert list(inconsistent(BOOKS, bill)) == []


@pytest.mark.parametrize(
    "bill",
    [
        Bill(7, 700, Decimal("0.3")),
        Bill(11, 1000, Decimal("0.5")),
        Bill(8, 699, Decimal("0.3")),
        Bill(10, 1001, Decimal("0.5")),
        Bill(8, 700, Decimal("0.29")),
        Bill(10, 1000, Decimal("0.51")),
    ],
)
def test_a_bill_outside_of_these_sums_is_told(bill: Bill) -> None:
    assert len(list(inconsistent(BOOKS, bill))) == 1


def test_an_open_call_and_a_wrong_balance_are_told() -> None:
    wrong = replace(BOOKS, open=1, booked=(999, Decimal("0.5")))
    assert len(list(inconsistent(wrong, Bill(9, 800, Decimal("0.4"))))) == 2


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        (Fault(105.0, 105.0, "kill worker", "worker-1", 4711), (1, 0, 0)),
        (Fault(90.0, 101.0, "stop worker", "worker-1", 4711), (1, 0, 0)),
        (Fault(105.0, 105.0, "kill worker", "worker-2", 471), (0, 0, 1)),
        (Fault(120.0, 120.0, "kill worker", "worker-1", 4711), (0, 0, 1)),
        (Fault(105.0, 105.0, "kill postgres", "postgres", 99), (0, 1, 0)),
        (Fault(105.0, 105.0, "kill redis", "redis", 98), (0, 0, 1)),
    ],
)
def test_a_lost_attempt_is_laid_to_the_fault_that_hit_it(fault: Fault, counts: tuple[int, int, int]) -> None:
    found = repeated([LOST, replace(LOST, episode=2, outcome="done")], [fault])
    assert (found.own_worker, found.database, len(found.other)) == counts
    assert found.total == 1
    assert found.in_flight == (0 if counts[2] else 2)


def test_the_last_line_sums_up() -> None:
    verdict = Verdict(200)
    assert list(verdict.lines()) == ["200 kills, 0 lost, 0 doubled, mean equal"]
    assert verdict.good
    verdict.different.append("r1-large: generations differ")
    assert list(verdict.lines())[-1] == "200 kills, 0 lost, 0 doubled, mean DIFFERENT"
    assert not verdict.good


def test_results_name_the_parts_that_differ() -> None:
    calm = Results([(0, "aa")], [(0, 1.0)], [(0, 5)], [])
    assert calm.differences(replace(calm)) == []
    assert calm.differences(replace(calm, episodes=[(0, 0.5)])) == ["episodes"]
