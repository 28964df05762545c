"""What the search is told is checked: a reward that is missing or no number from 0 to 1 never reaches it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import generations
from services.storage.engine import Database
from tests.support.crowd import record_of
from tests.support.fault_doubles import submit, tell, tiny_campaign
from tests.support.faults import Stage, hurry
from tests.support.outcomes import rows

__all__ = ["hurry"]

ONE = "(select min(id) from episode where campaign_id = {campaign} and purpose = 'training')"
WRECK = {
    "nan": f"update episode set reward = 'NaN' where id = {ONE}",
    "infinite": f"update episode set reward = 'Infinity' where id = {ONE}",
    "negative": f"update episode set reward = -0.25 where id = {ONE}",
    "too large": f"update episode set reward = 1.5 where id = {ONE}",
    "none": f"update episode set reward = null where id = {ONE}",
    "one too few": f"update episode set state = 'cancelled', reward = null, outcome = null where id = {ONE}",
}
GUARDS = ("ck_episode_reward", "ck_episode_reward_range", "ck_episode_scored")


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


def wrecked(stage: Stage, how: str) -> CampaignId:
    """Play a campaign whose reward is damaged behind the product's back before its generation is closed."""
    with stage.look.transaction() as conn:
        for guard in GUARDS:
            conn.exec_driver_sql(f"alter table episode drop constraint {guard}")
    campaign = submit(stage.look, tiny_campaign(name="wrecked"))
    damaged = False

    def between() -> None:
        nonlocal damaged
        with stage.look.transaction() as conn:
            if not damaged and generations.open_of(conn, campaign) is not None:
                rows_changed = conn.exec_driver_sql(WRECK[how].format(campaign=int(campaign))).rowcount
                damaged = rows_changed == 1

    stage.between = between
    stage.play(campaign)
    stage.between = lambda: None
    assert damaged
    return campaign


@pytest.mark.parametrize("how", list(WRECK))
def test_a_damaged_reward_stops_the_campaign_with_its_reason_before_the_search_hears_of_it(
    stage: Stage, how: str
) -> None:
    campaign = wrecked(stage, how)
    record = record_of(stage.look, campaign)
    assert record.state in (CampaignState.PAUSED, CampaignState.FAILED), record.stop_reason
    tell(f"{how}: {record.state}: {record.stop_reason}")
    assert "reward" in (record.stop_reason or "")
    with stage.look.transaction() as conn:
        told = rows(
            conn,
            "select count(*), count(fitness), count(closed_at) filter (where state = 'closed') from generation "
            "where campaign_id = {campaign}",
            campaign,
        )
    assert told == ((1, 0, 0),), "the only generation is as it was opened, without a fitness"


def test_a_campaign_paused_for_a_missing_reward_goes_on_once_it_is_mended(stage: Stage) -> None:
    calm = submit(stage.look, tiny_campaign(name="calm"))
    assert stage.play(calm) is CampaignState.COMPLETED
    stage.resumes = 1

    def mend(campaign: CampaignId) -> None:
        statement = f"update episode set reward = 1.0, state = 'scored' where id = {ONE}"
        with stage.look.transaction() as conn:
            conn.exec_driver_sql(statement.format(campaign=int(campaign)))

    stage.before_resume = mend
    campaign = wrecked(stage, "none")
    assert record_of(stage.look, campaign).state is CampaignState.COMPLETED
    assert len(stage.stops) == 1
