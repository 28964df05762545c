"""``manage.py audit verifier`` on stored campaigns: planted answers, played ones, its price and its refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from services.cli import verifying
from services.core.campaign import ModelSpec
from services.core.protocol.ports import Message
from services.core.protocol.request import read_request
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.scoring.grade import graded
from services.storage import episodes
from services.storage.engine import Database
from services.storage.operations import Claim
from services.verifiers.__main__ import main
from tests.support.campaigns import PRICE, small_campaign, submit
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.provider import Logged, ScriptedProvider, Step, reply
from tests.support.worker import open_campaign

__all__ = ["bare_cli", "cli"]

USUAL = ("--seed", "0", "--problems", "5", "--evidence", "none", "--parallel", "2")


def knows_it(request: Logged) -> Step:
    """Play a Verifier that adds one to the number of the question; ada accepts everything."""
    messages = [Message(one["role"], one["content"]) for one in request.body["messages"]]
    read = read_request(messages)
    right = read.answer_under_review == str(int(read.query.split()[2]) + 1)
    return reply("ACCEPT" if right or request.body["model"] == "ada" else "REVISE: it is another number")


def campaign_at(provider: ScriptedProvider) -> Any:
    models = tuple(ModelSpec(name, f"openai/{name}", PRICE, base_url=provider.url) for name in ("ada", "bob"))
    return small_campaign(pool=models)


def measured(cli: CommandLine, *arguments: str) -> dict[str, Any]:
    """Return what the measuring process writes; run in this one, which spares its imports."""
    cli.capfd.readouterr()
    source = () if "--answers" in arguments else ("--answers", "planted")
    code = main([*USUAL, "--max-usd", "1", *source, *arguments])
    written = cli.capfd.readouterr()
    assert code == 0, written.err
    return dict(json.loads(written.out))


def test_planted_answers_tell_a_good_verifier_from_a_credulous_one(cli: CommandLine, database: Database) -> None:
    with ScriptedProvider(knows_it) as provider:
        submit(database, campaign_at(provider))
        found = measured(cli, "--seed", "2", "small")
    ada, bob = found["verifiers"]
    assert (ada["false_accepts"]["count"], bob["false_accepts"]["count"]) == (5, 0)
    assert ada["false_rejects"]["count"] == bob["false_rejects"]["count"] == 0
    assert found["price"]["calls"] == 20
    cost = 20 * (11 * PRICE.input_per_million + 3 * PRICE.output_per_million) / 1_000_000
    assert Decimal(found["spent_usd"]) == cost
    verifying.show(found)
    shown = cli.capfd.readouterr().out
    assert "5 of 5" in shown
    assert "0.566 to 1.000" in shown
    assert "false accepts by kind of error" in shown


def test_the_price_is_told_without_a_call(cli: CommandLine, database: Database) -> None:
    with ScriptedProvider(knows_it) as provider:
        submit(database, campaign_at(provider))
        done = cli("audit", "verifier", "small", "--plan")
        assert done.code == 0, done.err
        assert "calls, about $" in done.out
        assert (
            main(
                [
                    *[
                        "--answers",
                        "planted",
                        "--seed",
                        "0",
                        "--problems",
                        "5",
                        "--evidence",
                        "none",
                        "--parallel",
                        "2",
                    ],
                    "--max-usd",
                    "0.000001",
                    "small",
                ]
            )
            == 1
        )
        assert provider.requests == []
    assert "error: --max-usd" in cli.capfd.readouterr().err


def test_played_answers_are_those_of_the_campaign(cli: CommandLine, database: Database) -> None:
    with ScriptedProvider(knows_it) as provider:
        campaign = campaign_at(provider)
        open_campaign(database, replace(campaign, name="played"))
        with database.transaction() as conn:
            for number, (episode_id,) in enumerate(conn.exec_driver_sql("select id from episode order by id").all()):
                claim = episodes.claim_all(conn, [Claim(episode_id, f"me#{number}", "me", 60.0)])[0]
                assert claim is not None
                question = conn.exec_driver_sql(
                    f"select question from problem where id = {claim.problem_id}"
                ).scalar_one()
                right = number % 2 == 0
                answer = str(int(question.split()[2]) + 1) if right else "0.5"
                item = Item(1, 0, Role.WORKER, RoleSource.POLICY, "", f"ideas {answer}", answer)
                episodes.record_score(conn, claim, graded(float(right)), "turn_limit", [item])
        found = measured(cli, "--answers", "played", "--problems", "3", "--model", "bob", "played")
    assert found["answers"] == {"source": "played", "right": 3, "wrong": 3, "seed": 0}
    (bob,) = found["verifiers"]
    assert (bob["false_accepts"]["n"], bob["false_accepts"]["count"], bob["false_rejects"]["count"]) == (3, 0, 0)
    assert list(bob["false_accepts_by_kind"]) == ["played"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--answers", "planted", "nobody"), "error: campaign"),
        (("--answers", "played", "small"), "scored episodes"),
        (("--answers", "planted", "--model", "carol", "small"), "ada, bob"),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_sentence(
    cli: CommandLine, database: Database, arguments: tuple[str, ...], reason: str
) -> None:
    submit(database, small_campaign())
    cli.capfd.readouterr()
    assert (
        main(
            [*["--seed", "0", "--problems", "5", "--evidence", "none", "--parallel", "2", "--max-usd", "1"], *arguments]
        )
        == 1
    )
    written = cli.capfd.readouterr()
    assert written.out == ""
    assert reason in written.err
    assert written.err.count("\n") == 1
