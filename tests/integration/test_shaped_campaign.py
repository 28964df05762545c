"""A campaign with everything that the plain ones leave at its default: bonuses, another start, another step size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import psycopg
import pytest

from services.config.document import from_json
from services.core.campaign import Campaign, HeadKind, HeadSpec, StepSize
from services.core.fitness import bonus_of
from services.core.ids import CampaignId
from services.core.policy.layout import Layout
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.scoring.grade import graded
from services.core.states import GenerationKind
from services.storage import episodes, generations, overview
from services.storage.audit.inspection import judge, read
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode, GenerationRecord
from tests.support.auditing import assert_clean, broken
from tests.support.campaigns import small_campaign, submit
from tests.support.storage import query
from tests.support.story import Stage


def shaped_campaign() -> Campaign:
    plain = small_campaign(name="shaped", head=HeadSpec(HeadKind.LOW_RANK, rank=12))
    search = replace(plain.search, step_size=StepSize.CSA, entropy_bonus=0.15, turn_bonus=0.1)
    return replace(plain, search=search)


def agents_of(claim: ClaimedEpisode) -> list[int]:
    """Return whom an episode chooses, turn by turn: sample 0 one model, sample 1 both, sample 2 more often, ..."""
    return [turn % 2 if claim.candidate_index % 2 else 0 for turn in range(1 + claim.candidate_index)]


def play(stage: Stage, campaign_id: CampaignId) -> None:
    """Score all that is due, every reward 0.5, and take the step that follows."""
    for episode_id in stage.due(campaign_id):
        claim = stage.claim(episode_id)
        turns = [
            Item(number, agent, Role.WORKER, RoleSource.POLICY, "", "idea", "2")
            for number, agent in enumerate(agents_of(claim), start=1)
        ]
        for turn in turns:
            stage.call(claim, turn=turn.number, agent=turn.agent)
        with stage.database.statement() as conn:
            episodes.record_score(conn, claim, graded(0.5), "turn_limit", turns)
    stage.advance(campaign_id)


@pytest.fixture
def shaped(database: Database) -> CampaignId:
    """A campaign that was played to its end; its scheduler forgot everything between any two steps."""
    stage = Stage(database)
    stage.take_office()
    campaign_id = submit(database, shaped_campaign())
    stage.advance(campaign_id)
    for _ in range(4):
        play(stage, campaign_id)
    return campaign_id


def history(database: Database, campaign_id: CampaignId) -> list[GenerationRecord]:
    with database.transaction() as conn:
        return generations.history(conn, campaign_id)


def test_fitness_is_reward_and_bonuses_and_the_search_starts_at_the_layouts_point(
    database: Database, shaped: CampaignId
) -> None:
    campaign = shaped_campaign()
    first, second, *measured = history(database, shaped)
    assert [generation.kind for generation in measured] == [GenerationKind.VALIDATION, GenerationKind.EVALUATION]
    np.testing.assert_array_equal(first.mean, Layout.of_campaign(campaign).start(campaign.seed))
    wanted = [0.5 + bonus_of(counts, campaign) for counts in ([3], [3, 3], [9], [6, 6])]
    for generation in (first, second):
        assert generation.fitness is not None
        assert generation.fitness.tolist() == wanted
    with database.transaction() as conn:
        scores = query(conn, "select fitness from candidate where kind <> 'sample'")
        curve = overview.learning_curve(conn, shaped)
    assert set(scores) == {(0.5,)}, "what is validated and compared is the reward alone"
    assert [(point.best_fitness, point.validation) for point in curve] == [(max(wanted), 0.5)] * 2
    assert_clean(database)


EPISODES = "select e.id from episode e join candidate c on c.id = e.candidate_id where c.kind = '{}' and c.index = 0"
OTHERWISE = "update campaign set spec = jsonb_set(spec, '{{campaign,{}}}', '{}')"


BREAKS = [
    (f"update turn set agent = 1 where episode_id = ({EPISODES.format('sample')} order by 1 limit 1)", {"I1", "I2"}),
    (f"update turn set agent = 1 where episode_id in ({EPISODES.format('mean')})", {"I2"}),
    (f"delete from turn where episode_id in ({EPISODES.format('sample')})", {"I1", "I2"}),
    (OTHERWISE.format("search,entropy_bonus", "0.2"), {"I1"}),
    (OTHERWISE.format("search,step_size", '"tpa"'), {"I6"}),
    (OTHERWISE.format("head,rank", "9"), {"I6"}),
    ("update campaign set seed = 6", {"I6"}),
]


def test_the_audit_sees_what_does_not_lead_to_the_stored_search(database: Database, shaped: CampaignId) -> None:
    for statement, invariants in BREAKS:
        assert found_after(database, statement) == invariants, statement


def found_after(database: Database, statement: str) -> set[str]:
    """Return the invariants found broken after a statement, which is undone."""
    with database.transaction() as conn:
        driver = conn.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert driver.execute(statement.encode()).rowcount > 0, "the statement changed nothing"
        judges = read(conn, from_json)
        conn.rollback()
    return set(broken(judge(judges)))
