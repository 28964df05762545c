"""``campaign fork`` on a campaign that has closed a generation, and what is exported and shown of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from services.core.problem import Split
from services.core.states import CandidateKind, EpisodeState, GenerationKind, Purpose
from services.storage import campaign_states, campaigns, episodes, generations, leadership, problems
from services.storage.engine import Database
from services.storage.records import CampaignRecord, CandidateScore, Fork, NewCandidate, NewEpisode
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.storage import worker_turn

__all__ = ["bare_cli", "cli"]


@pytest.fixture
def trained(cli: CommandLine, database: Database) -> CampaignRecord:
    """The campaign ``small`` with generation 0 closed: one episode a candidate, rewards 0 and 1."""
    assert cli("campaign", "submit", cli.campaign()).code == 0
    with database.transaction() as conn:
        record = campaigns.by_name(conn, "small")
        epoch = leadership.take_office(conn)
        campaign_states.start(conn, record.id, epoch)
        (problem_id, _), *_ = problems.load(conn, record.id, Split.TRAINING)
        opened = generations.open_generation(
            conn,
            record.id,
            epoch=epoch,
            number=0,
            kind=GenerationKind.TRAINING,
            mean=np.linspace(-1, 1, record.dimension),
            sigma=0.25,
            checksum="c" * 64,
            candidates=[NewCandidate(CandidateKind.SAMPLE, index, np.zeros(record.dimension)) for index in range(2)],
            episodes=[NewEpisode(index, Purpose.TRAINING, 0, problem_id, 7) for index in range(2)],
        )
    with database.transaction() as conn:
        numbers = [row[0] for row in conn.exec_driver_sql("select id from episode order by id")]
    for number, reward in zip(numbers, (0.0, 1.0), strict=True):
        with database.statement() as conn:
            claim = episodes.claim(conn, number, "w1", 60.0)
        assert claim is not None
        with database.statement() as conn:
            episodes.record_score(conn, claim, reward, "turn_limit", [worker_turn()])
    with database.transaction() as conn:
        scores = [CandidateScore(CandidateKind.SAMPLE, index, float(index), 2 - index) for index in range(2)]
        generations.close(conn, opened, epoch=epoch, fitness=np.array([0.0, 1.0]), scores=scores, summary={})
        return campaigns.by_id(conn, record.id)


def test_a_fork_keeps_problems_and_specification_and_remembers_its_origin(
    cli: CommandLine, database: Database, trained: CampaignRecord
) -> None:
    done = cli("campaign", "fork", "small", "--name", "branch", "--set", "search.generations=5", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["generation"] == 0
    with database.transaction() as conn:
        forked = campaigns.by_name(conn, "branch")
        assert forked.forked_from == Fork(trained.id, 0)
        assert forked.seed == trained.seed
        assert forked.spec["campaign"]["search"]["generations"] == 5
        assert forked.spec["campaign"]["pool"] == trained.spec["campaign"]["pool"]
        for split in Split:
            ours, theirs = (problems.load(conn, record.id, split) for record in (forked, trained))
            assert [problem for _, problem in ours] == [problem for _, problem in theirs]
    added_generations = 3
    per_generation = 4 * 3 + 2
    assert forked.budget.episodes == trained.budget.episodes + added_generations * per_generation


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--generation", "1"), "0 to 0"),
        (("--set", 'protocol.roles=["worker"]'), "theta"),
        (("--set", "search.population=none"), "search.population"),
        (("--set", "search.nothing=1"), "search.nothing"),
        (("--set", "validation.problems=9"), "validation.problems"),
    ],
)
def test_a_wrong_fork_writes_nothing(
    cli: CommandLine, database: Database, trained: CampaignRecord, arguments: tuple[str, ...], named: str
) -> None:
    done = cli("campaign", "fork", "small", "--name", "branch", *arguments)
    assert done.code == 1
    assert named in done.err
    with database.transaction() as conn:
        assert [record.name for record in campaigns.list_all(conn)] == ["small"]


def test_exported_vectors_come_back_bit_for_bit(cli: CommandLine, trained: CampaignRecord, tmp_path: Path) -> None:
    assert cli("campaign", "export", "small", "--out", str(tmp_path)).code == 0
    (line,) = (tmp_path / "generations.jsonl").read_text().splitlines()
    generation = json.loads(line)
    mean = np.frombuffer(base64.b64decode(generation["mean_float64"]), "<f8")
    assert mean.tobytes() == np.linspace(-1, 1, trained.dimension).tobytes()
    assert generation["fitness"] == [0.0, 1.0]
    rewards = [json.loads(text) for text in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    assert [(episode["state"], episode["reward"]) for episode in rewards] == [
        (EpisodeState.SCORED, 0.0),
        (EpisodeState.SCORED, 1.0),
    ]


def test_the_learning_curve_is_shown(cli: CommandLine, trained: CampaignRecord) -> None:
    shown = cli("campaign", "show", "small")
    assert shown.code == 0, shown.err
    assert "0.500  1.000" in shown.out
    assert "ada 100%" in shown.out
    (point,) = json.loads(cli("campaign", "show", "small", "--json").out)["learning_curve"]
    assert (point["mean_fitness"], point["best_fitness"], point["role_share"]) == (0.5, 1.0, {"worker": 1.0})
