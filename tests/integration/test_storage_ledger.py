from __future__ import annotations

from decimal import Decimal

import pytest

from services.core.campaign import BudgetLimits
from services.core.errors import AttemptInterrupted, BudgetExhausted
from services.core.ids import CallId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.core.states import AttemptOutcome
from services.storage import campaign_states, campaigns, episodes, ledger
from services.storage.engine import Connection, Database
from services.storage.records import ClaimedEpisode, Settlement
from tests.support.storage import query, scene, worker_turn
from tests.support.threads import at_once

CENT = Decimal("0.01")


def reserve(
    conn: Connection, claim: ClaimedEpisode, *, turn: int = 1, try_: int = 1, tokens: int = 100, usd: Decimal = CENT
) -> CallId:
    return ledger.reserve_call(
        conn,
        claim,
        turn=turn,
        try_=try_,
        agent=0,
        model="gpt",
        role=Role.WORKER,
        tokens=tokens,
        usd=usd,
        lease_seconds=60,
    )


@pytest.mark.parametrize(
    ("limits", "scope", "fit"),
    [
        (BudgetLimits(100, tokens=1_050), "tokens", 10),
        (BudgetLimits(100, usd=Decimal("0.079999999999")), "USD", 7),
    ],
)
def test_racing_reservations_never_pass_the_limit(
    database: Database, limits: BudgetLimits, scope: str, fit: int
) -> None:
    made = scene(database, candidates=5, replicates=10, limits=limits)
    claims = [made.claim(place) for place in range(50)]

    def attempt(number: int) -> str:
        try:
            with database.statement() as conn:
                reserve(conn, claims[number])
        except BudgetExhausted as refusal:
            return refusal.scope
        return "fits"

    results = at_once(50, attempt)
    assert results.count("fits") == fit
    assert results.count(scope) == 50 - fit
    with database.transaction() as conn:
        assert query(conn, "select count(*) from llm_call") == [(fit,)]
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.tokens_reserved, spend.usd_reserved, spend.calls_started) == (100 * fit, CENT * fit, fit)


def test_what_is_left_to_the_last_quantum_can_be_spent(database: Database) -> None:
    made = scene(database, limits=BudgetLimits(100, tokens=100, usd=CENT))
    claim = made.claim()
    with database.statement() as conn:
        call = reserve(conn, claim)
        with pytest.raises(BudgetExhausted) as caught:
            reserve(conn, claim, turn=2, tokens=1, usd=Decimal(0))
        assert (caught.value.limit, caught.value.reserved, caught.value.wanted) == (100, 100, 1)
        ledger.settle_call(conn, call, Settlement(Usage(40, 10), Decimal("0.004"), 0.1))
        reserve(conn, claim, turn=2, tokens=50, usd=Decimal("0.006"))


def test_settling_twice_changes_nothing(database: Database) -> None:
    made = scene(database)
    with database.statement() as conn:
        call = reserve(conn, made.claim())
    settlement = Settlement(Usage(30, 12), Decimal("0.000000000001"), 0.5, "stop")

    def settle(_: int) -> bool:
        with database.statement() as conn:
            return ledger.settle_call(conn, call, settlement)

    assert sum(at_once(16, settle)) == 1
    with database.transaction() as conn:
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.tokens_charged, spend.usd_charged) == (42, Decimal("0.000000000001"))
        assert (spend.tokens_reserved, spend.usd_reserved) == (0, Decimal(0))
        assert query(conn, "select kind, tokens from ledger_entry order by kind") == [
            ("charge", 42),
            ("release", 100),
            ("reservation", 100),
        ]


@pytest.mark.parametrize(
    ("settlement", "state", "tokens", "usd", "estimated"),
    [
        (Settlement(None, Decimal(0), 1.0, error_kind="RateLimited"), "settled", 0, Decimal(0), False),
        (Settlement(None, None, 1.0, error_kind="CallTimedOut"), "unknown", 100, CENT, True),
        (Settlement(Usage(5, 6, estimated=True), Decimal("0.001"), 1.0), "settled", 11, Decimal("0.001"), True),
    ],
)
def test_how_calls_end(
    database: Database, settlement: Settlement, state: str, tokens: int, usd: Decimal, estimated: bool
) -> None:
    made = scene(database)
    with database.statement() as conn:
        assert ledger.settle_call(conn, reserve(conn, made.claim()), settlement)
    with database.transaction() as conn:
        assert query(conn, "select state, estimated, cost_usd from llm_call") == [(state, estimated, usd)]
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.tokens_charged, spend.usd_charged, spend.usd_reserved) == (tokens, usd, Decimal(0))


def test_a_bill_above_the_reservation_is_booked_and_stops_the_campaign(database: Database) -> None:
    made = scene(database, limits=BudgetLimits(100, tokens=100, usd=CENT))
    claim = made.claim()
    with database.statement() as conn:
        ledger.settle_call(conn, reserve(conn, claim), Settlement(Usage(90, 30), 3 * CENT, 0.1))
        with pytest.raises(BudgetExhausted):
            reserve(conn, claim, turn=2, tokens=0, usd=Decimal(0))
    with database.transaction() as conn:
        spend = campaigns.by_id(conn, made.campaign).spend
        assert (spend.tokens_charged, spend.tokens_overrun) == (120, 20)
        assert (spend.usd_charged, spend.usd_overrun) == (3 * CENT, 2 * CENT)


def test_time_is_a_budget_too(database: Database) -> None:
    made = scene(database, limits=BudgetLimits(100, wall_clock_seconds=0.0))
    with database.statement() as conn, pytest.raises(BudgetExhausted) as caught:
        reserve(conn, made.claim())
    assert caught.value.scope == "wall clock seconds"
    with database.transaction() as conn:
        assert campaigns.overdue(conn) == [made.campaign]
        campaigns.add_budget(conn, made.campaign, wall_clock_seconds=3600)
        assert campaigns.overdue(conn) == []


@pytest.mark.parametrize("change", ["pause", "fail"])
def test_no_call_starts_in_a_campaign_that_does_not_run(database: Database, change: str) -> None:
    made = scene(database)
    claim = made.claim()
    with database.transaction() as conn:
        getattr(campaign_states, change)(conn, made.campaign, "a test")
    expected = AttemptInterrupted if change == "pause" else Exception
    with database.statement() as conn, pytest.raises(expected):
        reserve(conn, claim)
    with database.transaction() as conn:
        assert query(conn, "select count(*) from llm_call") == [(0,)]


def test_repeated_work_stands_apart_in_the_totals(database: Database) -> None:
    made = scene(database)
    for done in (False, True):
        claim = made.claim()
        with database.statement() as conn:
            ledger.settle_call(conn, reserve(conn, claim), Settlement(Usage(7, 3), CENT, 0.1, "stop"))
            if done:
                episodes.record_score(conn, claim, graded(1.0), "accepted", [worker_turn()])
            else:
                episodes.give_back(conn, claim)
    with database.transaction() as conn:
        found = {row.outcome: (row.calls, row.tokens, row.usd) for row in ledger.totals(conn, made.campaign)}
    assert found == {AttemptOutcome.DONE: (1, 10, CENT), AttemptOutcome.RETURNED: (1, 10, CENT)}
