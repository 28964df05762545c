from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from sqlalchemy.exc import IntegrityError

from services.core.errors import IllegalTransition, LeadershipLost, SpecError
from services.core.ids import CandidateId, EpisodeId
from services.core.problem import Split
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.core.states import (
    CandidateKind,
    CoordinatorOrigin,
    EpisodeState,
    GenerationKind,
    GenerationState,
    Purpose,
)
from services.storage import coordinators, episodes, evaluations, generations, leadership, overview, problems
from services.storage.engine import Database
from services.storage.records import CandidateScore, NewCandidate, NewCoordinator, NewEpisode
from tests.support.storage import DIMENSION, Scene, open_next, query, scene, worker_turn


def settle_all(made: Scene, failed: int = 0) -> None:
    for place in range(len(made.episodes)):
        claim = made.claim(place)
        with made.database.statement() as conn:
            if place < failed:
                episodes.record_failure(conn, claim, "E", "", retry=False)
            else:
                episodes.record_score(conn, claim, graded(place / 4), "accepted", [worker_turn()])


def close(made: Scene, epoch: int | None = None) -> None:
    with made.database.transaction() as conn:
        generations.close(
            conn,
            made.generation,
            epoch=made.epoch if epoch is None else epoch,
            fitness=np.array([0.125, 0.625]),
            scores=[CandidateScore(CandidateKind.SAMPLE, index, 0.125 + index / 2, 1 - index) for index in (0, 1)],
            summary={"best": 0.625},
        )


def test_a_generation_goes_from_open_to_history(database: Database) -> None:
    made = scene(database)
    with database.transaction() as conn:
        found = generations.open_of(conn, made.campaign)
        assert found is not None
        assert (found.id, found.number, found.epoch, found.fitness) == (made.generation, 0, made.epoch, None)
        assert found.mean.tolist() == [0.0] * DIMENSION
        assert generations.unfinished(conn, made.generation) == 4
        assert generations.history(conn, made.campaign) == []
    settle_all(made, failed=1)
    with database.transaction() as conn:
        rewards = [(outcome.candidate_index, outcome.reward) for outcome in generations.outcomes(conn, made.generation)]
        assert rewards == [(0, None), (0, 0.25), (1, 0.5), (1, 0.75)]
        assert generations.counts(conn, made.generation) == {EpisodeState.FAILED: 1, EpisodeState.SCORED: 3}
    close(made)
    with database.transaction() as conn:
        assert generations.open_of(conn, made.campaign) is None
        (closed,) = generations.history(conn, made.campaign, GenerationKind.TRAINING)
        assert generations.history(conn, made.campaign, GenerationKind.EVALUATION) == []
        assert closed.fitness is not None
        assert (closed.state, closed.fitness.tolist(), closed.summary) == (
            GenerationState.CLOSED,
            [0.125, 0.625],
            {"best": 0.625},
        )
        assert query(conn, "select count(theta), max(fitness), min(rank) from candidate") == [(0, 0.625, 0)]
        assert episodes.candidate_theta(conn, CandidateId(1)) is None


def test_closing_waits_for_every_episode_and_happens_once(database: Database) -> None:
    made = scene(database)
    with pytest.raises(IllegalTransition, match="4 of its episodes are unfinished"):
        close(made)
    settle_all(made)
    close(made)
    with pytest.raises(IllegalTransition, match="closed"):
        close(made)


def test_a_deposed_leader_neither_closes_nor_opens(database: Database) -> None:
    made = scene(database)
    settle_all(made)
    with database.transaction() as conn:
        leadership.take_office(conn)
    with pytest.raises(LeadershipLost):
        close(made)
    with pytest.raises(LeadershipLost), database.transaction() as conn:
        open_next(conn, made.campaign, made.epoch, 1, 1, 1)


def test_opening_512_episodes_is_quick(database: Database) -> None:
    made = scene(database)
    settle_all(made)
    close(made)
    with database.transaction() as conn:
        started = time.process_time()
        generation = open_next(conn, made.campaign, made.epoch, 1, 32, 16)
        spent = time.process_time() - started
        assert generations.unfinished(conn, generation) == 512
    assert spent < 0.5


def test_an_evaluation_is_read_back_for_the_report(database: Database) -> None:
    made = scene(database)
    settle_all(made)
    close(made)
    with database.transaction() as conn:
        held_out = problems.load(conn, made.campaign, Split.HELDOUT)
        generation = generations.open_generation(
            conn,
            made.campaign,
            epoch=made.epoch,
            number=1,
            kind=GenerationKind.EVALUATION,
            mean=np.ones(DIMENSION),
            sigma=0.25,
            checksum="d",
            candidates=[
                NewCandidate(CandidateKind.SINGLE, 0),
                NewCandidate(CandidateKind.MEAN, 0, np.ones(DIMENSION)),
            ],
            episodes=[
                NewEpisode(candidate, Purpose.EVALUATION, replicate, problem_id, 5)
                for candidate in (0, 1)
                for replicate, (problem_id, _) in enumerate(held_out[:2])
            ],
        )
        ids = [row[0] for row in query(conn, f"select id from episode where generation_id = {generation} order by id")]
        for episode_id in ids:
            claim = episodes.claim(conn, EpisodeId(episode_id), "w", 60)
            assert claim is not None
            episodes.record_score(
                conn, claim, graded(float(claim.candidate_kind is CandidateKind.MEAN)), "accepted", []
            )
        generations.close(conn, generation, epoch=made.epoch, fitness=None, summary={})
        rows = evaluations.read(conn, made.campaign).episodes
        assert [(row.candidate_kind, row.problem_key, row.reward) for row in rows] == [
            (CandidateKind.MEAN, "heldout-0", 1.0),
            (CandidateKind.MEAN, "heldout-1", 1.0),
            (CandidateKind.SINGLE, "heldout-0", 0.0),
            (CandidateKind.SINGLE, "heldout-1", 0.0),
        ]
        assert query(conn, f"select count(theta) from candidate where generation_id = {generation}") == [(1,)]


def test_the_overviews_of_a_campaign(database: Database) -> None:
    made = scene(database)
    settle_all(made, failed=1)
    with database.transaction() as conn:
        progress = overview.progress(conn, made.campaign)
        assert (progress.done, progress.total, progress.generation) == (3, 4, 0)
        assert (progress.agents, progress.roles, progress.failures) == ({0: 3}, {Role.WORKER: 3}, {"E": 1})
    close(made)
    with database.transaction() as conn:
        (point,) = overview.learning_curve(conn, made.campaign)
        assert (point.mean_fitness, point.best_fitness, point.validation) == (0.375, 0.625, None)
        assert (point.agent_share, point.role_share, point.mean_turns) == ({0: 1.0}, {Role.WORKER: 1.0}, 1.0)
        assert point.usd == Decimal(0)
        (row,) = overview.campaign_rows(conn)
        assert (row.generation, row.episodes_scored) == (0, 3)


def test_a_released_coordinator_never_changes(database: Database) -> None:
    made = scene(database)
    theta = np.linspace(-1, 1, DIMENSION)
    new = NewCoordinator(made.campaign, "c1", 0, theta, {"head": 6}, {"model": "m"}, {"models": ["a"]}, 0.5)
    with database.transaction() as conn:
        with pytest.raises(SpecError, match="none yet"):
            coordinators.by_name(conn, "c1")
        assert coordinators.release(conn, new, epoch=made.epoch) == "c1"
        stored = coordinators.by_name(conn, "c1")
        assert stored.theta.tolist() == theta.astype(np.float32).tolist()
        assert (stored.origin, stored.reading) == (CoordinatorOrigin.SEARCH, None)
        assert coordinators.of_campaign(conn, made.campaign) is not None
        assert [found.name for found in coordinators.list_all(conn)] == ["c1"]
    for statement in ("update coordinator set validation = 1", "delete from coordinator"):
        with pytest.raises(Exception, match="append-only"), database.transaction() as conn:
            conn.exec_driver_sql(statement)
    with pytest.raises(IntegrityError, match="uq_coordinator_search"), database.transaction() as conn:
        coordinators.release(conn, new, epoch=made.epoch)


def test_a_search_passes_over_a_name_that_is_taken(database: Database) -> None:
    first, second = scene(database, name="first"), scene(database, name="second")
    new = NewCoordinator(first.campaign, "c1", 0, np.zeros(DIMENSION), {}, {}, {})
    with database.transaction() as conn:
        coordinators.add_imported(conn, replace(new, campaign_id=None, description={"name": "c1"}))
        coordinators.release_by_hand(conn, replace(new, name="c1-2"))
        for name in ("c1", "c1-2"):
            with pytest.raises(SpecError, match="no other coordinator"):
                coordinators.release_by_hand(conn, replace(new, name=name))
        with pytest.raises(SpecError, match="a name that no campaign has"):
            coordinators.release_by_hand(conn, replace(new, name="second"))
        with pytest.raises(LeadershipLost):
            coordinators.release(conn, new, epoch=first.epoch)
        assert coordinators.release(conn, new, epoch=second.epoch) == "c1-3"
        assert [found.origin for found in coordinators.list_all(conn)] == ["import", "hand", "search"]
        newest = coordinators.of_campaign(conn, first.campaign)
        assert newest is not None
        assert newest.name == "c1-3"
