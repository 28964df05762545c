"""Every database operation fails once, before it is done or after: the campaign comes to the same with clean books."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.core.states import CampaignState
from services.storage.engine import Database
from tests.support.fault_doubles import submit, tell, tiny_campaign
from tests.support.faults import FULL, Stage, hurry, spread
from tests.support.outcomes import Outcome, billed, outcome_of, same_outcome
from tests.support.wire import Fault, Moment, PostgresRelay

__all__ = ["hurry"]

SHORT = 20


@pytest.fixture
def relay(database_url: str) -> Iterator[PostgresRelay]:
    with PostgresRelay.before(database_url) as made:
        yield made


@pytest.fixture
def stage(database_url: str, database: Database, relay: PostgresRelay, hurry: None) -> Iterator[Stage]:
    made = Stage(relay.url(database_url), database)
    yield made
    made.close()


def undisturbed(stage: Stage, relay: PostgresRelay) -> tuple[Outcome, int]:
    """Return the outcome without a fault and how many operations it took; the second run, with warm connections."""
    for name in ("warm", "calm"):
        relay.arm(None)
        campaign = submit(stage.look, tiny_campaign(name=name))
        assert stage.play(campaign) is CampaignState.COMPLETED
        assert (stage.hurried, stage.escaped, stage.fallen) == (0, [], [])
    return outcome_of(stage.look, campaign), relay.count


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.timeout(1800 if FULL else 120)
def test_a_connection_that_dies_at_any_operation_changes_nothing(
    stage: Stage, relay: PostgresRelay, moment: Moment
) -> None:
    reference, count = undisturbed(stage, relay)
    failures: list[str] = []
    notes: list[str] = []
    waits = 0
    for at in spread(count, SHORT):
        spec = tiny_campaign(name=f"cut-{at}")
        campaign = submit(stage.look, spec)
        stage.pool.billed.clear()
        relay.arm(Fault(at, moment))
        try:
            assert stage.play(campaign) is CampaignState.COMPLETED
            same_outcome(stage.look, campaign, reference)
            known, unknown = billed(stage.look, campaign)
            assert known <= stage.pool.cost(spec) <= known + unknown
        except AssertionError as error:
            failures.append(f"{at} ({relay.struck}): {str(error)[:300]}")
        waits += bool(stage.hurried)
        notes += [f"{at} ({relay.struck}): {what}" for what in (*stage.escaped, *stage.fallen, *stage.notes.errors)]
    tell(f"{moment}: {count} operations, {len(spread(count, SHORT))} tried, {waits} needed time to pass")
    tell("\n".join(notes))
    assert not failures, "\n".join(failures)
