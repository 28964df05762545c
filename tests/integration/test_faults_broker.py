"""Every operation on the broker fails once, in every way: the campaign comes to the same without anybody's help."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.queue.publish import BrokerUnavailable
from services.storage.engine import Database
from tests.support.fault_doubles import Belt, RealBelt, submit, tell, tiny_campaign
from tests.support.faults import Stage, hurry, spread
from tests.support.outcomes import outcome_of, same_outcome
from tests.support.wire import Fault, Moment, StreamRelay

__all__ = ["hurry"]


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


def trouble_at(at: int, share: float, error: Exception) -> Callable[[int], tuple[float, Exception] | None]:
    return lambda number: (share, error) if number == at else None


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["nothing", "half", "all"])
@pytest.mark.parametrize("error", [BrokerUnavailable("away"), ValueError("a bug in a library")], ids=type)
def test_a_sending_that_fails_after_any_part_of_it_changes_nothing(
    stage: Stage, share: float, error: Exception
) -> None:
    calm = submit(stage.look, tiny_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    reference, count = outcome_of(stage.look, calm), stage.belt.sendings
    for at in range(1, count + 1):
        stage.belt = belt = Belt(trouble_at(at, share, error))
        campaign = submit(stage.look, tiny_campaign(name=f"fails-{at}"))
        assert stage.play(campaign) is CampaignState.COMPLETED
        assert belt.sendings > count or share == 1.0
        assert stage.escaped == []
        assert stage.fallen == [], "no error of the broker ends the scheduler"
        same_outcome(stage.look, campaign, reference)


@pytest.mark.parametrize("moment", list(Moment))
def test_a_broker_connection_that_dies_at_any_operation_changes_nothing(
    database_url: str, database: Database, broker_url: str, hurry: None, moment: Moment
) -> None:
    if not broker_url.startswith("redis"):
        pytest.skip("the relay reads Redis's address only")
    with StreamRelay.before(broker_url) as relay:
        stage = Stage(database_url, database)

        def play(name: str, fault: Fault | None) -> CampaignId:
            campaign = submit(database, tiny_campaign(name=name))
            relay.arm(fault)
            stage.belt = belt = RealBelt(relay.url(broker_url), broker_url)  # a new connection is part of the way
            assert stage.play(campaign) is CampaignState.COMPLETED
            belt.close()
            return campaign

        reference = outcome_of(database, play("calm", None))
        count = relay.count
        for at in spread(count, 12):
            campaign = play(f"cut-{at}", Fault(at, moment))
            assert stage.notes.errors == []
            same_outcome(database, campaign, reference)
        stage.close()
    tell(f"{moment}: {count} operations, {len(spread(count, 12))} tried")
