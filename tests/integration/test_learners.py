"""Every learner through the product's own scheduler and worker, on a real Postgres; only the models are stand-ins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.core.campaign import (
    Algorithm,
    BudgetLimits,
    Campaign,
    EvaluationSpec,
    LabelsSpec,
    ProtocolSpec,
    Start,
    ValidationSpec,
)
from services.core.ids import CampaignId
from services.core.labels import Labels
from services.core.learners import ReinforceSpec, SupervisedSpec, Targets
from services.core.ledger.plan import plan_of
from services.core.optimiser.searches import search_of
from services.core.optimiser.supervised import fit_head
from services.core.policy.layout import Layout
from services.core.protocol.roles import Role
from services.core.rivals import FITTED, RivalKind, RivalSpec
from services.core.states import CampaignState, GenerationKind
from services.storage import campaign_states, campaigns, coordinators, labels
from services.storage.engine import Database
from tests.support.auditing import assert_clean, findings
from tests.support.campaigns import small_campaign, submit
from tests.support.rehearsal import Rehearsal, rehearsal
from tests.support.storage import query

L, T, V, E = (
    GenerationKind.LABELLING,
    GenerationKind.TRAINING,
    GenerationKind.VALIDATION,
    GenerationKind.EVALUATION,
)
LABELS = LabelsSpec(problems=5, repeats=2)
TEAM = SupervisedSpec(targets=Targets.TEAM, rate=0.05, epochs=20)
THREE_TURNS = ProtocolSpec(max_turns=3, max_output_tokens=64)
ONE_TURN = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)


COMPARED = (RivalKind.RANDOM_WORKER, RivalKind.MIXTURE, RivalKind.LOOKUP, RivalKind.LOGISTIC, RivalKind.ROUTER_DC)


def learning(algorithm: Algorithm, start: Start = Start.ZERO, **changes: Any) -> Campaign:
    """Two models, hidden size 4, population 4 x 3 replicates, three generations."""
    usual = {"name": f"{algorithm}-{start}".replace("_", "-"), "supervised": SupervisedSpec(rate=0.05, epochs=20)}
    plain = small_campaign(**usual | changes)
    search = replace(plain.search, algorithm=algorithm, start=start, generations=3)
    return replace(plain, search=search, reinforce=ReinforceSpec(rate=0.05))


REINFORCE = learning(Algorithm.REINFORCE)
CAMPAIGNS = {
    "random_search": learning(Algorithm.RANDOM_SEARCH),
    "reinforce": REINFORCE,
    "sft": learning(Algorithm.SFT, protocol=ONE_TURN, labels=LABELS),
    "team": learning(Algorithm.SFT, labels=LABELS, protocol=THREE_TURNS, supervised=TEAM),
    "warm_team": learning(Algorithm.SEP_CMA_ES, Start.SFT, labels=LABELS, protocol=THREE_TURNS, supervised=TEAM),
    "warm": learning(Algorithm.SEP_CMA_ES, Start.SFT, labels=LABELS),
    "warm_reinforce": learning(Algorithm.REINFORCE, Start.SFT, labels=LABELS),
    "rivals": replace(
        learning(Algorithm.RANDOM_SEARCH, name="rivals", labels=LABELS),
        evaluation=EvaluationSpec(3, rivals=tuple(RivalSpec(kind) for kind in COMPARED)),
    ),
    "labelled": learning(Algorithm.SEP_CMA_ES, labels=LABELS),
}


@pytest.mark.parametrize("name", list(CAMPAIGNS))
def test_every_learner_runs_to_its_end_within_its_plan(database: Database, name: str) -> None:
    campaign = CAMPAIGNS[name]
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        played = at.run(campaign_id)
        assert at.state(campaign_id) is CampaignState.COMPLETED
        kinds = [generation.kind for generation in at.history(campaign_id)]
    assert kinds == [L] * campaign.first_training + [T] * campaign.search.rounds + [V, E]
    plan = plan_of(campaign, (20,))
    assert played == plan.episodes
    assert calls(database) <= plan.largest_calls
    with database.transaction() as conn:
        assert query(conn, "select count(*) from turn_state s join episode e on e.id = s.episode_id "
                           "join candidate c on c.id = e.candidate_id where c.kind = 'sample'") == [(0,)]  # fmt: skip
        released = coordinators.of_campaign(conn, campaign_id)
    assert released is not None
    assert_clean(database)


def calls(database: Database) -> int:
    with database.transaction() as conn:
        return int(query(conn, "select count(*) from llm_call")[0][0])


@pytest.mark.parametrize("algorithm", [Algorithm.REINFORCE, Algorithm.RANDOM_SEARCH, Algorithm.SEP_CMA_ES])
def test_every_learner_books_as_many_training_episodes(database: Database, algorithm: Algorithm) -> None:
    campaign_id = submit(database, learning(algorithm))
    with rehearsal(database) as at:
        at.run(campaign_id)
    with database.transaction() as conn:
        found = query(conn, "select count(*), count(distinct problem_id) from episode where purpose = 'training'")
    assert found == [(3 * 4 * 3, 6)]


@pytest.mark.parametrize("name", list(CAMPAIGNS))
def test_a_scheduler_that_forgets_everything_before_every_step_reaches_the_same_vectors(
    database: Database, name: str
) -> None:
    campaign = CAMPAIGNS[name]
    calm, stormy = (submit(database, replace(campaign, name=f"{campaign.name}-{each}")) for each in ("calm", "stormy"))
    with rehearsal(database) as at:
        at.run(calm)
    with rehearsal(database, amnesia=True) as at:
        while at.state(stormy) in (CampaignState.SUBMITTED, CampaignState.RUNNING):
            at.step(stormy)
            assert findings(database) == {}
            at.play(stormy, most=5)
            at.step(stormy)
            at.play(stormy)
        assert checkpoints(at, stormy) == checkpoints(at, calm)


def checkpoints(at: Rehearsal, campaign_id: CampaignId) -> list[tuple[bytes, float, str, bytes | None]]:
    return [
        (g.mean.tobytes(), g.sigma, g.checksum, None if g.fitness is None else g.fitness.tobytes())
        for g in at.history(campaign_id)
    ]


def test_reinforce_moves_by_its_rate_at_most_and_keeps_its_memory(database: Database) -> None:
    campaign_id = submit(database, REINFORCE)
    with rehearsal(database) as at:
        at.run(campaign_id)
        first, second, *_ = at.history(campaign_id)
    assert not first.mean.any()
    assert 0 < np.abs(second.mean).max() <= 0.05 * (1 + 1e-9)
    with database.transaction() as conn:
        sizes = query(conn, "select kind, octet_length(memory) from generation order by number")
    n = Layout.of_campaign(REINFORCE).size
    assert sizes == [(kind.value, 2 * 8 * n) for kind in (T, T, T, V, E)]


def test_a_budget_that_ends_between_two_generations_loses_no_state(database: Database) -> None:
    whole = submit(database, replace(REINFORCE, name="whole"))
    short = submit(database, replace(REINFORCE, name="short", budget=BudgetLimits(episodes=20)))
    with rehearsal(database) as at:
        at.run(whole)
    with rehearsal(database, amnesia=True) as at:
        at.run(short)
        assert at.state(short) is CampaignState.BUDGET_EXHAUSTED
        assert_clean(database)
        with database.transaction() as conn:
            campaigns.add_budget(conn, short, episodes=100)
            campaign_states.resume(conn, short)
        at.run(short)
        assert checkpoints(at, short) == checkpoints(at, whole)


def started_from(database: Database, campaign: Campaign) -> tuple[Labels, Any, Any, Any]:
    """Run a campaign; return its labels, its first two generations and the head that is fitted to the labels."""
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.run(campaign_id)
        labelling, first, *_ = at.history(campaign_id)
    with database.transaction() as conn:
        known = labels.read(conn, campaign_id, campaign, reviews=campaign.fits_team)
    fitted = fit_head(known, Layout.of_campaign(campaign), campaign.supervised, campaign.seed)
    return known, labelling, first, fitted


def test_a_search_that_starts_from_labels_opens_with_the_fitted_head(database: Database) -> None:
    campaign = CAMPAIGNS["warm"]
    layout = Layout.of_campaign(campaign)
    _, labelling, first, fitted = started_from(database, campaign)
    assert fitted.any()
    assert not fitted[2 * 4 :].any(), "the roles' rows"
    assert first.mean.tobytes() == fitted.tobytes()
    assert not labelling.mean.any()
    assert first.checksum == search_of(campaign, campaign.seed, layout.size, fitted).checksum()


def test_a_team_is_fitted_to_what_reviews_would_be_read_as(database: Database) -> None:
    known, _, first, fitted = started_from(database, CAMPAIGNS["warm_team"])
    with database.transaction() as conn:
        assert query(conn, "select number, count(*) from turn_state group by number order by number") == [
            (number, 2 * 5) for number in (1, 2, 3)
        ]
    assert known.reviews is not None
    assert known.reviews.answered.shape == known.reviews.rejected.shape == (5, 2, 4)
    seen: list[np.ndarray[Any, Any]] = [known.states, known.reviews.answered[:, 0], known.reviews.rejected[:, 0]]
    assert len({row.astype(np.float32).tobytes() for part in seen for row in part}) == 15
    assert first.mean.tobytes() == fitted.tobytes()
    assert fitted[2 * 4 :].any(), "the roles' rows"


def test_labels_are_every_models_own_answers(database: Database) -> None:
    campaign = CAMPAIGNS["labelled"]
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.step(campaign_id)
        assert at.play(campaign_id) == 2 * 5 * 2
        assert calls(database) == 2 * 5 * 2
        at.step(campaign_id)
    with database.transaction() as conn:
        known = labels.read(conn, campaign_id, campaign)
        assert query(conn, "select count(*) from turn_state") == [(5,)]
        rows = query(conn, "select c.index, e.replicate, e.reward from episode e join candidate c "
                           "on c.id = e.candidate_id where c.kind = 'single'")  # fmt: skip
    for model, replicate, reward in rows:
        repeat, place = divmod(replicate, 5)
        assert known.rewards[place, model, repeat] == reward
    assert known.states.shape == (5, 4)
    assert len({row.tobytes() for row in known.states}) == 5
    assert known.families == ["sums"] * 5
    assert all(answer is not None for row in known.answers for answer in row)


def test_what_is_fitted_is_one_worker_turn_that_is_measured_like_any_mean(database: Database) -> None:
    campaign = CAMPAIGNS["sft"]
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.run(campaign_id)
        _, validation, evaluation = at.history(campaign_id)
    assert validation.mean.any()
    assert evaluation.mean.tobytes() == validation.mean.tobytes()
    with database.transaction() as conn:
        released = coordinators.of_campaign(conn, campaign_id)
    assert released is not None
    assert released.generation == 1
    assert released.theta.tobytes() == validation.mean.astype(np.float32).tobytes()


def test_evaluations_are_repeated_with_other_seeds(database: Database) -> None:
    campaign = replace(learning(Algorithm.RANDOM_SEARCH), evaluation=EvaluationSpec(3, repeats=2))
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.run(campaign_id)
    with database.transaction() as conn:
        rows = query(conn, "select c.kind, c.index, count(*), count(distinct problem_id), count(distinct e.seed) "
                           "from episode e join candidate c on c.id = e.candidate_id "
                           "where e.purpose = 'evaluation' group by 1, 2")  # fmt: skip
    assert len(rows) == 4
    assert {row[2:] for row in rows} == {(6, 3, 6)}
    assert_clean(database)


def test_fitted_rivals_act_by_their_parameters(database: Database) -> None:
    campaign_id = submit(database, CAMPAIGNS["rivals"])
    with rehearsal(database) as at:
        at.run(campaign_id)
    with database.transaction() as conn:
        rows = query(conn, "select index, theta is not null from candidate where kind = 'rival' order by index")
        turns = query(conn, "select count(*), count(distinct role) from turn t join episode e on e.id = t.episode_id "
                            "join candidate c on c.id = e.candidate_id "
                            "where c.kind = 'rival' and c.index > 1")  # fmt: skip
    assert rows == [(place, kind in FITTED) for place, kind in enumerate(COMPARED)]
    assert turns == [(3 * 3, 1)]


def test_without_validation_the_last_vector_is_released(database: Database) -> None:
    campaign = replace(REINFORCE, validation=ValidationSpec(1, 0))
    campaign_id = submit(database, campaign)
    with rehearsal(database, amnesia=True) as at:
        at.run(campaign_id)
        *_, evaluation = at.history(campaign_id)
    with database.transaction() as conn:
        released = coordinators.of_campaign(conn, campaign_id)
    assert released is not None
    assert released.generation == evaluation.number == 3
    assert released.theta.tobytes() == evaluation.mean.astype(np.float32).tobytes()
    assert_clean(database)


@pytest.mark.parametrize(
    ("statement", "invariant"),
    [
        ("update generation set memory = sha256(memory) where number = 1", "I6"),
        ("update generation set memory = null where number = 1", "I6"),
        ("update generation set sigma = 0.5 where number = 2", "I6"),
        ("update generation set mean = mean || mean where number = 0", "I6"),
        ("update candidate set theta = sha256(theta) where kind = 'sample' and theta is not null", "I14"),
        ("update episode set seed = seed + 1 where state = 'pending'", "I14"),
    ],
)
def test_the_audit_notices_what_was_altered(database: Database, statement: str, invariant: str) -> None:
    campaign_id = submit(database, REINFORCE)
    with rehearsal(database) as at:
        for _ in range(2):
            at.step(campaign_id)
            at.play(campaign_id)
        at.step(campaign_id)
    assert findings(database) == {}
    with database.transaction() as conn:
        conn.exec_driver_sql(statement)
    assert invariant in findings(database)


def test_altered_labelling_is_noticed(database: Database) -> None:
    campaign_id = submit(database, CAMPAIGNS["labelled"])
    with rehearsal(database) as at:
        at.step(campaign_id)
        at.play(campaign_id)
        at.step(campaign_id)
    with database.transaction() as conn:
        conn.exec_driver_sql("update generation set sigma = sigma * 2 where kind = 'labelling'")
        conn.exec_driver_sql("delete from turn_state")
        conn.exec_driver_sql("update candidate set fitness = 1.5 where kind = 'single' and index = 0")
    assert {"I1", "I6"} <= set(findings(database))
