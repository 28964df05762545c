"""Campaigns that compare a coordinator which was released before, and train nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.config import document
from services.core.campaign import Algorithm, Campaign, EvaluationSpec, LabelsSpec, ValidationSpec
from services.core.ids import CampaignId
from services.core.problem import Split
from services.core.states import CampaignState, GenerationKind
from services.storage import campaigns, coordinators, evaluations, generations, problems, readings
from services.storage.audit.inspection import judge, read
from services.storage.engine import Database
from tests.support.auditing import assert_clean, broken
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli
from tests.support.fault_doubles import submit, tiny_campaign
from tests.support.faults import Stage, hurry
from tests.support.stub_models import fingerprint
from tests.support.trained import train

__all__ = ["bare_cli", "cli", "hurry"]


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database)
    yield made
    made.close()


def trained(**changes: Any) -> Campaign:
    return tiny_campaign(name="old", evaluation=EvaluationSpec(problems=3), **changes)


def comparing(coordinator: str, **changes: Any) -> Campaign:
    plain = trained()
    search = replace(plain.search, algorithm=Algorithm.GIVEN, coordinator=coordinator)
    return replace(plain, name="again", search=search, validation=ValidationSpec(every=1, problems=0), **changes)


def play(stage: Stage, campaign: Campaign) -> CampaignId:
    campaign_id = submit(stage.look, campaign)
    assert stage.play(campaign_id) is CampaignState.COMPLETED, (stage.stops, stage.notes.lines[-3:])
    return campaign_id


def test_a_released_coordinator_is_compared_without_training_and_comes_to_the_same(stage: Stage) -> None:
    first = play(stage, trained())
    second = play(stage, comparing("old"))
    with stage.look.transaction() as conn:
        (only,) = generations.history(conn, second)
        released = coordinators.by_name(conn, "old")
        assert [row.name for row in coordinators.list_all(conn)] == ["old"], "nothing is released again"
        theirs, mine = (evaluations.read(conn, campaign_id).episodes for campaign_id in (first, second))
    assert (only.kind, only.number) == (GenerationKind.EVALUATION, 0)
    np.testing.assert_array_equal(only.mean, released.theta.astype(np.float64))
    assert [(each.problem_key, each.reward, each.turns, each.calls) for each in mine] == [
        (each.problem_key, each.reward, each.turns, each.calls) for each in theirs
    ]
    assert_clean(stage.look)


def test_labels_are_asked_for_first_where_the_comparison_needs_them(stage: Stage) -> None:
    play(stage, trained())
    second = play(stage, comparing("old", labels=LabelsSpec(problems=4, repeats=1)))
    with stage.look.transaction() as conn:
        assert [each.kind for each in generations.history(conn, second)] == [
            GenerationKind.LABELLING,
            GenerationKind.EVALUATION,
        ]
        assert evaluations.read(conn, second).labels.keys() == {"sums"}
    assert_clean(stage.look)


def test_the_audit_sees_another_vector_compared(stage: Stage) -> None:
    play(stage, trained())
    second = play(stage, comparing("old"))
    with stage.look.transaction() as conn:
        conn.exec_driver_sql(
            f"update generation set mean = set_byte(mean, 3, get_byte(mean, 3) # 1) where campaign_id = {second}"
        )
        found = broken(judge(read(conn, document.from_json)))
        conn.rollback()
    assert "I6" in found


def released(cli: CommandLine, database: Database) -> None:
    """Release ``small-g0`` by hand, of a campaign that was read with the tests' fingerprint."""
    cli("campaign", "submit", cli.campaign())
    train(database, "small")
    with database.transaction() as conn:
        readings.settle(conn, campaigns.by_name(conn, "small").id, fingerprint())
    assert cli("coordinator", "release", "small", "--generation", "0").code == 0


def test_the_command_submits_a_campaign_that_only_compares(cli: CommandLine, database: Database) -> None:
    released(cli, database)
    planned = json.loads(cli("coordinator", "evaluate", "small-g0", cli.campaign(), "--plan", "--json").out)["plan"]
    assert (planned["training_episodes"], planned["validation_episodes"]) == (0, 0)
    assert planned["episodes"] == planned["evaluation_episodes"] == 6 * 4
    done = cli("coordinator", "evaluate", "small-g0", cli.campaign(), "--name", "again")
    assert done.code == 0, done.err
    assert "trained on or chosen by" not in done.err
    with database.transaction() as conn:
        record = campaigns.by_name(conn, "again")
        assert readings.of_campaign(conn, record.id) == fingerprint()
    campaign = document.from_json(record.spec)
    assert (campaign.search.algorithm, campaign.search.coordinator) == (Algorithm.GIVEN, "small-g0")
    assert campaign.budget.episodes == 6 * 4
    assert "coordinator small-g0, released before, is compared" in cli("campaign", "show", "again").out


def test_held_out_questions_that_it_was_trained_on_are_told(cli: CommandLine, database: Database) -> None:
    released(cli, database)
    with database.transaction() as conn:
        own = problems.load(conn, campaigns.by_name(conn, "small").id, Split.TRAINING)
    rows = [{"question": problem.question, "answer": "1"} for _, problem in own]
    (cli.folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = "  source: jsonl\n  sets: [{files: [own.jsonl], question: question, scorer: exact, answer: answer}]\n"
    source += "  split: {seed: 1, training: 1, validation: 1, heldout: 5}\n"
    old = CAMPAIGN[CAMPAIGN.index("  source:") : CAMPAIGN.index("pool:")]
    text = CAMPAIGN.replace(old, source).replace("evaluation: {problems: 6}", "evaluation: {problems: 5}")
    done = cli("coordinator", "evaluate", "small-g0", cli.campaign(text, "own.yaml"), "--name", "again", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["held_out_seen_in_training"] == 5


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("name: bob", "name: eve", "pool"),
        ("max_turns: 2", "max_turns: 2, roles: [worker, verifier]", "protocol.roles"),
        ("\nvalidation:", "\nhead: {kind: block_diagonal_2}\nvalidation:", "head"),
        ("\nvalidation:", "\nencoder: {singular_values: none}\nvalidation:", "encoder.singular_values"),
        ("\nvalidation:", "\nencoder: {center: true}\nvalidation:", "encoder.center"),
    ],
)
def test_a_coordinator_that_does_not_fit_is_refused(
    cli: CommandLine, database: Database, old: str, new: str, field: str
) -> None:
    released(cli, database)
    other = cli.campaign(CAMPAIGN.replace(old, new), "other.yaml")
    refused = cli("coordinator", "evaluate", "small-g0", other, "--name", "again")
    assert refused.code == 1
    assert f"{field}: got" in refused.err
    assert "as coordinator small-g0 was trained with" in refused.err
    assert "again" not in cli("campaign", "list").out


def test_an_unknown_coordinator_is_refused(cli: CommandLine) -> None:
    refused = cli("coordinator", "evaluate", "nobody", cli.campaign())
    assert refused.code == 1
    assert "name of a coordinator" in refused.err
