"""The database fails once while an attempt ends in another way than with a reward: it still ends once, and rightly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from services.core.errors import ProviderUnavailable
from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import campaign_states
from services.storage.engine import Database
from tests.support.fault_doubles import submit, tell, tiny_campaign
from tests.support.faults import FULL, Stage, hurry
from tests.support.outcomes import outcome_of, same_outcome
from tests.support.storage import query
from tests.support.wire import Fault, Moment, PostgresRelay

__all__ = ["hurry"]

# Operations from the moment that the attempt goes wrong; by then it has ended and the scheduler has looked at it.
POINTS = range(1, 61) if FULL else range(1, 25, 4)
CALL = 3  # the call at which it goes wrong


@pytest.fixture
def relay(database_url: str) -> Iterator[PostgresRelay]:
    with PostgresRelay.before(database_url) as made:
        yield made


@pytest.fixture
def stage(database_url: str, database: Database, relay: PostgresRelay, hurry: None) -> Iterator[Stage]:
    made = Stage(relay.url(database_url), database)
    made.runtime.retries = type(made.runtime.retries)(tries=1)
    yield made
    made.close()


def fails(stage: Stage, campaign: CampaignId) -> None:
    raise ProviderUnavailable("away")


def is_paused(stage: Stage, campaign: CampaignId) -> None:
    with stage.look.transaction() as conn:
        campaign_states.pause(conn, campaign, "by hand")


def runs_out_of_budget(stage: Stage, campaign: CampaignId) -> None:
    with stage.look.transaction() as conn:
        query(conn, f"update campaign set call_budget = calls_started where id = {campaign}")


def lift_budget(stage: Stage, campaign: CampaignId) -> None:
    with stage.look.transaction() as conn:
        query(conn, f"update campaign set call_budget = null where id = {campaign}")


@pytest.mark.timeout(1800 if FULL else 120)
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("ending", [fails, is_paused, runs_out_of_budget])
def test_an_attempt_that_ends_without_a_reward_ends_once_whatever_the_connection_does(
    stage: Stage, relay: PostgresRelay, ending: Callable[[Stage, CampaignId], None], moment: Moment
) -> None:
    calm = submit(stage.look, tiny_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    reference = outcome_of(stage.look, calm)
    stage.resumes, stage.before_resume = 1, lambda campaign: lift_budget(stage, campaign)
    failures: list[str] = []
    waits = 0
    for at in POINTS:
        campaign = submit(stage.look, tiny_campaign(name=f"cut-{at}"))

        def trouble(number: int, campaign: CampaignId = campaign, at: int = at) -> None:
            if number == CALL:
                relay.arm(Fault(at, moment))
                ending(stage, campaign)

        stage.pool.asked, stage.pool.trouble = 0, trouble
        try:
            assert stage.play(campaign) is CampaignState.COMPLETED, stage.stops
            assert stage.escaped == []
            assert stage.notes.errors == []
            same_outcome(stage.look, campaign, reference)
        except AssertionError as error:
            failures.append(f"{at} ({relay.struck}): {str(error)[:400]}")
        waits += bool(stage.hurried)
    tell(f"{ending.__name__}, {moment}: {len(POINTS)} operations, {waits} needed time to pass")
    assert not failures, "\n".join(failures)
