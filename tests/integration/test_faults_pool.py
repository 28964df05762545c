"""Every model call fails once, in every way: the campaign comes to the same, and no failure is ever a reward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from services.core.errors import (
    AuthenticationFailed,
    BadReply,
    CallTimedOut,
    ContextTooLong,
    PoolError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UnknownModel,
)
from services.core.protocol.roles import Role
from services.core.states import CampaignState
from services.storage.engine import Database
from tests.support.campaigns import small_campaign
from tests.support.fault_doubles import fate, submit, tell, tiny_campaign
from tests.support.faults import Stage, hurry, spread
from tests.support.outcomes import billed, outcome_of, rows, same_outcome

__all__ = ["hurry"]

Failure = Callable[[], Exception]
TRANSIENT: dict[str, Failure] = {
    "rate limited": partial(RateLimited, "slower", retry_after_seconds=0.0),
    "unavailable": partial(ProviderUnavailable, "away"),
    "timed out": partial(CallTimedOut, "late", billed_unknown=True),
    "cut after the answer": partial(ProviderUnavailable, "cut", billed_unknown=True),
    "bad reply": partial(BadReply, "not a completion", billed_unknown=True),
    "unexpected": partial(ValueError, "a bug in a library"),
    "out of memory": MemoryError,
}
PERMANENT: dict[str, Failure] = {
    kind.__name__: partial(kind, "no") for kind in (AuthenticationFailed, UnknownModel, ContextTooLong, RequestRejected)
}


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


def failing_at(at: int, failure: Failure) -> Callable[[int], None]:
    def trouble(number: int) -> None:
        if number == at:
            raise failure()

    return trouble


@pytest.mark.parametrize("name", [*TRANSIENT, *PERMANENT])
def test_any_failure_of_any_call_changes_nothing_but_its_own_cost(stage: Stage, name: str) -> None:
    failure = (TRANSIENT | PERMANENT)[name]
    calm = submit(stage.look, tiny_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    reference, count = outcome_of(stage.look, calm), stage.pool.asked
    stage.resumes = 1
    for at in spread(count, 3):
        spec = tiny_campaign(name=f"fails-{at}")
        campaign = submit(stage.look, spec)
        stage.pool.billed.clear()
        stage.pool.asked, stage.pool.trouble = 0, failing_at(at, failure)
        assert stage.play(campaign) is CampaignState.COMPLETED, (at, stage.stops)
        assert len(stage.stops) == (name in PERMANENT), f"{at}: only what a person has to mend stops a campaign"
        assert (stage.escaped, stage.fallen) == ([], [])
        same_outcome(stage.look, campaign, reference)
        known, unknown = billed(stage.look, campaign)
        billed_unknown = isinstance(error := failure(), PoolError) and error.billed_unknown
        assert known == stage.pool.cost(spec)
        assert bool(unknown) == (billed_unknown or not isinstance(error, PoolError)), f"{at}: {unknown}"
    tell(f"{name}: {len(spread(count, 3))} of {count} calls")


def test_an_always_right_pool_that_fails_one_call_in_ten_has_a_fitness_of_exactly_one(stage: Stage) -> None:
    spec = small_campaign(protocol=replace(small_campaign().protocol, roles=(Role.WORKER,)))
    campaign = submit(stage.look, spec)
    stage.pool.always_right = True
    stage.runtime.retries = replace(stage.runtime.retries, tries=1)
    failed = 0

    def trouble(number: int) -> None:
        nonlocal failed
        if fate("one in ten", number) < 0.1:
            failed += 1
            raise ProviderUnavailable("away", billed_unknown=number % 2 == 0)

    stage.pool.trouble = trouble
    assert stage.play(campaign) is CampaignState.COMPLETED, stage.stops
    assert failed >= 5
    with stage.look.transaction() as conn:
        rewards = rows(conn, "select distinct reward from episode where campaign_id = {campaign}", campaign)
        fitness = rows(
            conn,
            "select distinct k.fitness from candidate k join generation g on g.id = k.generation_id "
            "where g.campaign_id = {campaign}",
            campaign,
        )
    assert (rewards, fitness) == (((1.0,),), ((1.0,),))


@pytest.mark.parametrize("calls", [6, 10_000], ids=["short", "long"])
def test_an_outage_of_the_provider_delays_and_never_lowers_a_fitness(stage: Stage, calls: int) -> None:
    calm = submit(stage.look, small_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    reference = outcome_of(stage.look, calm)
    stage.pool.asked = 0
    away = True

    def trouble(number: int) -> None:
        if away and 10 < number <= 10 + calls:
            raise ProviderUnavailable("away")

    def mend(campaign: object) -> None:
        nonlocal away
        away = False

    stage.pool.trouble, stage.before_resume, stage.resumes = trouble, mend, 1
    campaign = submit(stage.look, small_campaign(name="outage"))
    assert stage.play(campaign) is CampaignState.COMPLETED, stage.stops
    assert len(stage.stops) == (calls > 100), "a short one is lived through, a long one stops the campaign"
    for reason in stage.stops:
        assert "ProviderUnavailable" in reason, reason
    same_outcome(stage.look, campaign, reference)
