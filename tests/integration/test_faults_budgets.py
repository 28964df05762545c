"""Hard limits with fifty episodes under way and one call in twenty failing: never passed, never refused too early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from services.core.campaign import BudgetLimits, Campaign, EvaluationSpec, SearchSpec, ValidationSpec
from services.core.errors import BudgetExhausted, ProviderUnavailable
from services.core.ids import CampaignId
from services.core.protocol.roles import Role
from services.core.states import CampaignState
from services.storage import campaign_states, campaigns, leadership
from services.storage.engine import Database
from tests.support.auditing import assert_clean
from tests.support.campaigns import small_campaign
from tests.support.crowd import Crowd, record_of
from tests.support.fault_doubles import fate, submit, tell
from tests.support.faults import Stage, hurry
from tests.support.outcomes import outcome_of, same_outcome

__all__ = ["hurry"]

# 2 generations x 8 x 8 episodes of two calls each.
EPISODES, CALLS = 128, 256
SHORT: dict[str, dict[str, Any]] = {
    "episodes": {"episodes": EPISODES // 2},
    "calls": {"calls": CALLS * 2 // 3},
    "tokens": {"tokens": 2_500},
    "USD": {"usd": Decimal("0.0015")},
    "wall clock seconds": {"wall_clock_seconds": 0.3},
}
MORE: dict[str, Any] = {
    "episodes": EPISODES,
    "calls": 10 * CALLS,
    "tokens": 10**7,
    "usd": Decimal(100),
    "wall_clock_seconds": 600.0,
}


def campaign_with(name: str, **limits: Any) -> Campaign:
    base = small_campaign(name=name)
    return replace(
        base,
        protocol=replace(base.protocol, roles=(Role.WORKER,)),
        search=SearchSpec(population=8, replicates=8, generations=2, sigma0=0.5),
        validation=ValidationSpec(every=1, problems=0),
        evaluation=EvaluationSpec(problems=0),
        budget=BudgetLimits(**{"episodes": EPISODES} | limits),
    )


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    made.runtime.retries = replace(made.runtime.retries, tries=1)
    yield made
    made.close()


def one_in_twenty(number: int) -> None:
    if fate("one in twenty", number) < 0.05:
        raise ProviderUnavailable("away", billed_unknown=number % 2 == 0)


def give_more(database: Database, campaign: CampaignId) -> None:
    with database.transaction() as conn:
        campaigns.add_budget(conn, campaign, **MORE)
        campaign_states.resume(conn, campaign)


@pytest.mark.parametrize("scope", list(SHORT))
def test_no_limit_is_ever_passed_and_more_of_it_lets_the_campaign_finish_unchanged(stage: Stage, scope: str) -> None:
    with Crowd(stage) as crowd:
        calm = submit(stage.look, campaign_with("calm"))
        assert crowd.play(campaign_with("calm"), calm).broken == []
        reference = outcome_of(stage.look, calm)
        assert reference.state == "completed"
        stage.pool.billed.clear()
        stage.pool.trouble, stage.pool.seconds = one_in_twenty, 0.01
        spec = campaign_with("tight", **SHORT[scope])
        campaign = submit(stage.look, spec, max_attempts=20)
        watch = crowd.play(spec, campaign)
        stopped = record_of(stage.look, campaign)
        assert watch.broken == []
        assert stopped.state is CampaignState.BUDGET_EXHAUSTED, stopped.stop_reason
        assert (stopped.stop_reason or "").startswith(f"budget of {scope}"), stopped.stop_reason
        give_more(stage.look, campaign)
        after = crowd.play(spec, campaign)
    tell(f"{scope}: {watch.seen + after.seen} looks, {stopped.spend.calls_started} calls before the limit")
    assert after.broken == []
    done = record_of(stage.look, campaign)
    assert done.state is CampaignState.COMPLETED, done.stop_reason
    same_outcome(stage.look, campaign, reference)
    assert stage.escaped == []
    assert stage.notes.errors == []
    assert_clean(stage.look)


def test_a_budget_of_exactly_what_is_needed_refuses_nothing(stage: Stage) -> None:
    stage.pool.dear = True
    with Crowd(stage) as crowd:
        first = campaign_with("first")
        calm = submit(stage.look, first)
        crowd.play(first, calm)
        spent = record_of(stage.look, calm).spend
        assert spent.calls_started == CALLS
        stage.pool.billed.clear()
        exact = campaign_with("exact", calls=CALLS, tokens=spent.tokens_charged, usd=spent.usd_charged)
        campaign = submit(stage.look, exact)
        watch = crowd.play(exact, campaign)
    done = record_of(stage.look, campaign)
    assert done.state is CampaignState.COMPLETED, done.stop_reason
    assert watch.broken == []
    assert (done.spend.usd_charged, done.spend.tokens_charged) == (exact.budget.usd, exact.budget.tokens)
    same_outcome(stage.look, campaign, outcome_of(stage.look, calm))


def test_money_held_for_calls_under_way_does_not_end_a_campaign_that_can_afford_them(stage: Stage) -> None:
    stage.pool.seconds = 0.02
    with Crowd(stage) as crowd:
        first = campaign_with("first")
        calm = submit(stage.look, first)
        crowd.play(first, calm)
        spent = record_of(stage.look, calm).spend
        stage.pool.billed.clear()
        # Room for what it costs and for ten calls under way, while fifty would like to be.
        ample = campaign_with("ample", tokens=spent.tokens_charged + 6000)
        campaign = submit(stage.look, ample)
        watch = crowd.play(ample, campaign)
    done = record_of(stage.look, campaign)
    assert done.state is CampaignState.COMPLETED, (done.stop_reason, done.spend)
    assert watch.broken == []
    same_outcome(stage.look, campaign, outcome_of(stage.look, calm))


@pytest.mark.parametrize("scope", list(SHORT))
def test_a_worker_that_learned_of_the_old_limit_does_not_stop_a_campaign_that_was_given_more(
    stage: Stage, scope: str
) -> None:
    spec = campaign_with("given more", wall_clock_seconds=100.5, calls=7, tokens=7, usd=Decimal(7))
    limits: dict[str, Any] = {"episodes": EPISODES, "calls": 7, "tokens": 7, "USD": Decimal(7)}
    limit = limits.get(scope, Decimal("100.5"))
    late = BudgetExhausted(scope, limit, limit, 0, 1)
    campaign = submit(stage.look, spec)
    with stage.look.transaction() as conn:
        campaign_states.start(conn, campaign, leadership.take_office(conn, "test"))
        assert campaign_states.exhaust(conn, campaign, late)
    give_more(stage.look, campaign)
    with stage.look.transaction() as conn:
        assert not campaign_states.exhaust(conn, campaign, late)
    assert record_of(stage.look, campaign).state is CampaignState.RUNNING
