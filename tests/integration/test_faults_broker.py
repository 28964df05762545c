"""Every operation on the broker fails once, in every way: the campaign comes to the same without anybody's help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from services.core.states import CampaignState
from services.queue.app import make_app
from services.queue.messages import EpisodeMessage
from services.queue.publish import BrokerUnavailable, Delivery, Publisher
from services.storage.engine import Database
from tests.support.faults import FULL, Belt, Stage, hurry, spread, submit, tiny_campaign
from tests.support.outcomes import outcome_of, same_outcome
from tests.support.wire import Fault, Moment, StreamRelay

__all__ = ["hurry"]


@dataclass
class RealBelt:
    """The real publisher on a real broker, perhaps through a relay; taken from without one."""

    led: str
    straight: str

    def __post_init__(self) -> None:
        self.publisher = Publisher(make_app(self.led))
        self.app = make_app(self.straight)
        self.connection = self.app.connection_for_read()
        self.channel = self.connection.channel()
        self.queues = [queue(self.channel) for queue in self.app.conf.task_queues]

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self.publisher.send(deliveries)

    def take(self) -> int | None:
        for queue in self.queues:
            message = queue.get(no_ack=True)
            if message is not None:
                _, kwargs, _ = message.payload
                return int(EpisodeMessage.from_kwargs(kwargs).episode_id)
        return None

    def close(self) -> None:
        self.publisher.close()
        self.connection.release()
        self.app.close()


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["nothing", "half", "all"])
@pytest.mark.parametrize("error", [BrokerUnavailable("away"), ValueError("a bug in a library")], ids=type)
def test_a_sending_that_fails_after_any_part_of_it_changes_nothing(
    stage: Stage, share: float, error: Exception
) -> None:
    calm = submit(stage.look, tiny_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    reference, count = outcome_of(stage.look, calm), stage.belt.sendings
    for at in range(1, count + 1):
        stage.belt = belt = Belt(lambda number, at=at: (share, error) if number == at else None)
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
        belt = RealBelt(relay.url(broker_url), broker_url)
        stage: Any = Stage(database_url, database, belt=belt)
        for name in ("warm", "calm"):
            relay.arm(None)
            calm = submit(database, tiny_campaign(name=name))
            assert stage.play(calm) is CampaignState.COMPLETED
        reference, count = outcome_of(database, calm), relay.count
        failures: list[str] = []
        for at in spread(count, 12):
            relay.arm(Fault(at, moment))
            campaign = submit(database, tiny_campaign(name=f"cut-{at}"))
            try:
                assert stage.play(campaign) is CampaignState.COMPLETED
                assert stage.fallen == []
                same_outcome(database, campaign, reference)
            except AssertionError as error:
                failures.append(f"{at} ({relay.struck}): {str(error)[:300]}")
        stage.close()
        belt.close()
    print(f"{moment}: {count} operations, {len(spread(count, 12))} tried")
    assert not failures, "\n".join(failures)
