"""Kept replies, recordings and the models' health at the command line."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from services.config.document import from_json
from services.core.ids import CallId, CampaignId
from services.core.ledger.usage import Usage
from services.core.limits.breaker import OPENS_AFTER
from services.core.limits.meter import Meter, meter_of
from services.core.protocol.roles import Role
from services.storage import batch, campaigns, replies
from services.storage.engine import Database
from services.storage.operations import Keep, Reserve, Settle
from services.storage.records import Answer, Settlement
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli
from tests.support.storage import scene

__all__ = ["bare_cli", "cli"]

ANSWERS = "answers: {reuse: always}\n"


@pytest.fixture
def kept(cli: CommandLine, database: Database) -> CampaignId:
    assert cli("campaign", "submit", cli.campaign(CAMPAIGN + ANSWERS)).code == 0
    with database.transaction() as conn:
        campaign = campaigns.by_name(conn, "small").id
        texts = {"one": "42\x00\x1b[31m", "two": "43"}
        given = [Keep(campaign, key, "ada", Answer(text, "stop", Usage(3, 2))) for key, text in texts.items()]
        replies.keep_all(conn, given)
    return campaign


def test_kept_replies_are_listed_exported_and_deleted(cli: CommandLine, kept: CampaignId, tmp_path: Path) -> None:
    (listed,) = json.loads(cli("answers", "list", "--json").out)
    assert (listed["model"], listed["answers"], listed["hits"]) == ("ada", 2, 0)
    assert "ada" in cli("answers", "list").out
    file = tmp_path / "kept.jsonl"
    assert "2 replies written" in cli("answers", "export", str(file)).err
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["42\x00\x1b[31m", "43"]
    assert cli("answers", "delete").code == 2
    assert cli("answers", "delete", "--all", "--model", "ada").code == 2
    assert "0 replies deleted" in cli("answers", "delete", "--older-than", "1").out
    assert "no-such" in cli("answers", "delete", "--campaign", "no-such").err
    assert "2 replies deleted" in cli("answers", "delete", "--campaign", "small").out
    assert json.loads(cli("answers", "list", "--json").out) == []


def test_the_policy_is_part_of_the_specification(cli: CommandLine, database: Database, kept: CampaignId) -> None:
    with database.transaction() as conn:
        assert from_json(campaigns.by_id(conn, kept).spec).answers.reuse == "always"
    wrong = cli("campaign", "validate", cli.campaign(CAMPAIGN + "answers: {reuse: sometimes}\n", "wrong.yaml"))
    assert wrong.code == 1
    assert "answers.reuse" in wrong.err
    assert "within_generation" in wrong.err


def test_an_export_says_what_it_wants(cli: CommandLine, kept: CampaignId, tmp_path: Path) -> None:
    assert cli("campaign", "export", "small").code == 2
    done = cli("campaign", "export", "small", "--recording", str(tmp_path / "small-run.jsonl"))
    assert done.out.split() == [str(tmp_path / "small-run.jsonl"), str(tmp_path / "small-run.yaml")]
    assert "0 calls recorded" in done.err
    refused = cli("campaign", "export", "small", "--recording", str(tmp_path / "small-run.txt"))
    assert refused.code == 1
    assert "it names the pool" in refused.err


def test_a_model_that_is_left_alone_is_shown(cli: CommandLine, database: Database, kept: CampaignId) -> None:
    with database.transaction() as conn:
        model = from_json(campaigns.by_id(conn, kept).spec).pool[0]
    made = scene(database)
    claim = made.claim()
    fail(
        database,
        [Reserve(claim, turn, 1, 0, "ada", Role.WORKER, 9, Decimal(0), 60.0, meter_of(model)) for turn in range(1, 9)],
    )
    (found,) = json.loads(cli("pool", "status", "--json").out)
    assert (found["breaker"], found["errors"], found["commonest"]) == ("open", OPENS_AFTER, "ProviderUnavailable")
    shown = cli("pool", "status").out
    assert "openai/ada at http://127.0.0.1:9/v1" in shown
    assert "open until" in shown
    assert "100%" in shown
    assert "models, in the newest calls of all campaigns" in cli("campaign", "show", "small").out
    (model_health,) = json.loads(cli("campaign", "show", "small", "--json").out)["models"]
    assert model_health["breaker"] == "open"


def fail(database: Database, requests: list[Reserve]) -> None:
    for request in requests:
        with database.transaction() as conn:
            (call,) = batch.apply(conn, [request])
            meter = request.meter
            assert isinstance(meter, Meter)
            if isinstance(call, int):
                lost = Settlement(None, Decimal(0), 0.1, error_kind="ProviderUnavailable")
                batch.apply(conn, [Settle(CallId(call), request.claim.campaign_id, lost, meter, answered=False)])
