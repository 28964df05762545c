"""The campaign commands on a real database and a real broker."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from services.cli import submission
from services.core.states import CampaignState
from services.storage import campaigns
from services.storage.engine import Database
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli

__all__ = ["bare_cli", "cli"]


def state_of(database: Database, name: str) -> CampaignState:
    with database.transaction() as conn:
        return campaigns.by_name(conn, name).state


def test_a_submitted_campaign_is_stored_with_its_resolved_specification(cli: CommandLine, database: Database) -> None:
    done = cli("campaign", "submit", cli.campaign())
    assert done.code == 0, done.err
    assert "submitted campaign small (id " in done.out
    assert "manage.py campaign watch small" in done.err
    with database.transaction() as conn:
        record = campaigns.by_name(conn, "small")
    assert record.state is CampaignState.SUBMITTED
    assert record.dimension == 3264 + (2 + 3) * 576
    assert record.spec["campaign"]["search"]["population"] == 4
    assert record.versions.keys() == {"search", "product", "python"}


def test_submitting_as_json_prints_one_document(cli: CommandLine) -> None:
    done = cli("campaign", "submit", cli.campaign(), "--name", "other", "--json")
    assert json.loads(done.out)["name"] == "other"


def test_a_used_name_is_refused(cli: CommandLine) -> None:
    file = cli.campaign()
    assert cli("campaign", "submit", file).code == 0
    again = cli("campaign", "submit", file)
    assert again.code == 1
    assert "'small'" in again.err


@pytest.mark.parametrize("name", ["Small", "a b", "", "-x", "x" * 65])
def test_a_name_that_no_file_could_carry_is_refused(cli: CommandLine, name: str) -> None:
    done = cli("campaign", "submit", cli.campaign(), f"--name={name}")
    assert done.code == 1
    assert "--name" in done.err


def test_listing(cli: CommandLine) -> None:
    cli("campaign", "submit", cli.campaign())
    rows = json.loads(cli("campaign", "list", "--json").out)
    assert [(row["name"], row["state"]) for row in rows] == [("small", "submitted")]
    assert "small" in cli("campaign", "list").out


def test_pausing_resuming_and_cancelling(cli: CommandLine, database: Database) -> None:
    cli("campaign", "submit", cli.campaign())
    assert cli("campaign", "pause", "small", "--reason", "lunch").out == "campaign small is paused\n"
    assert cli("campaign", "pause", "small").out == "campaign small is paused already\n"
    assert json.loads(cli("campaign", "show", "small", "--json").out)["campaign"]["stop_reason"] == "lunch"
    assert cli("campaign", "resume", "small").code == 0
    assert state_of(database, "small") is CampaignState.RUNNING
    assert cli("campaign", "cancel", "small").code == 0
    refused = cli("campaign", "resume", "small")
    assert refused.code == 1
    assert "cancelled" in refused.err


def test_showing_an_unknown_campaign_names_the_known_ones(cli: CommandLine) -> None:
    cli("campaign", "submit", cli.campaign())
    done = cli("campaign", "show", "smal")
    assert done.code == 1
    assert "small" in done.err


def test_raising_limits(cli: CommandLine, database: Database) -> None:
    cli("campaign", "submit", cli.campaign())
    assert cli("campaign", "budget", "small", "--add-usd", "2.50").code == 0
    with database.transaction() as conn:
        assert campaigns.by_name(conn, "small").budget.usd == pytest.approx(12.5)
    assert cli("campaign", "budget", "small").code == 1
    assert cli("campaign", "budget", "small", "--add-usd", "NaN").code == 1


def test_watching_an_ended_campaign_prints_a_line_and_fails(cli: CommandLine) -> None:
    cli("campaign", "submit", cli.campaign())
    cli("campaign", "cancel", "small")
    done = cli("campaign", "watch", "small")
    assert done.code == 1
    assert done.out.startswith("small: cancelled")


def test_an_exported_campaign_can_be_submitted_nowhere_but_read_everywhere(cli: CommandLine, tmp_path: Path) -> None:
    cli("campaign", "submit", cli.campaign())
    done = cli("campaign", "export", "small", "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert json.loads((tmp_path / "out" / "campaign.json").read_text())["name"] == "small"
    assert (tmp_path / "out" / "episodes.jsonl").read_text() == ""


def test_a_report_of_a_campaign_without_results_says_so(cli: CommandLine, tmp_path: Path) -> None:
    cli("campaign", "submit", cli.campaign())
    assert cli("campaign", "report", "small", "--out", str(tmp_path / "out")).code == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "No held-out problem has been answered yet" in page
    shown = cli("campaign", "show", "small").out
    for text in (
        "nearest to recommended, but protocol.max_turns 2,",
        "7: layers.28 (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj)",
        "linear, softmax output",
        "notes of all roles",
    ):
        assert text in page
        assert text in shown


def test_the_schema_commands(cli: CommandLine) -> None:
    assert cli("db", "check").code == 0
    assert cli("db", "upgrade").code == 0


def test_a_campaign_is_planned_and_validated_without_services(bare_cli: CommandLine) -> None:
    file = bare_cli.campaign()
    assert bare_cli("campaign", "validate", file).code == 0
    document = json.loads(bare_cli("campaign", "plan", file, "--json").out)
    assert document["plan"]["dimension"] == 3264 + (2 + 3) * 576
    assert document["plan"]["training_episodes"] == 2 * 4 * 3
    assert document["plan"]["evaluation_episodes"] == 6 * (1 + 1 + 2)
    assert document["plan"]["episodes"] == sum(document["plan"][f"{split}_episodes"] for split in
                                               ("training", "validation", "evaluation"))  # fmt: skip
    assert Decimal(document["plan"]["largest_usd"]) > Decimal(document["plan"]["expected_usd"])
    printed = bare_cli("campaign", "plan", file).out
    assert "cost" in printed
    assert "nearest to recommended, but" in printed
    assert "0.425 s a decision on one core (200 new tokens)" in printed
    assert "s a call, 3 s a decision on" in bare_cli("campaign", "plan", file, "--decision-seconds", "3").out
    assert not (bare_cli.folder / "var").exists(), "planning wrote something"


@pytest.mark.parametrize(
    ("calls", "fit", "said"),
    [
        ("null", "fits", None),
        ("10000", "fits", None),
        ("150", "may stop", "the limit of model calls is below the largest figure: the campaign may stop there"),
        ("5", "will stop", "the limit of model calls is below the expected figure: the campaign will stop there"),
    ],
)
def test_a_plan_holds_calls_against_their_limit(bare_cli: CommandLine, calls: str, fit: str, said: str | None) -> None:
    text = CAMPAIGN.replace("max_turns: 2", "max_turns: 4")
    file = bare_cli.campaign(text.replace("budget: {usd: 10}", f"budget: {{usd: 10, calls: {calls}}}"))
    planned = json.loads(bare_cli("campaign", "plan", file, "--json").out)
    assert planned["plan"]["expected_calls"] < 150 < planned["plan"]["largest_calls"]
    assert planned["fit"] == {"episodes": "fits", "model calls": fit, "tokens": "fits", "cost": "fits", "time": "fits"}
    assert (planned["weight"], planned["max_failure_share"]) == (1.0, 0.5)
    printed = bare_cli("campaign", "plan", file).out
    assert (said or "") in printed
    assert ("below the" in printed) == (said is not None)


def test_calls_and_weight_are_stored_listed_and_shown(cli: CommandLine) -> None:
    text = CAMPAIGN.replace("budget: {usd: 10}", "budget: {usd: 10, calls: 500}\nweight: 0.5\nmax_failure_share: 0.25")
    assert cli("campaign", "submit", cli.campaign(text)).code == 0
    (row,) = json.loads(cli("campaign", "list", "--json").out)
    assert (row["weight"], row["calls_started"], row["call_budget"]) == (0.5, 0, 500)
    shown = json.loads(cli("campaign", "show", "small", "--json").out)["campaign"]
    assert (shown["weight"], shown["budget"]["calls"], shown["spend"]["calls_started"]) == (0.5, 500, 0)
    text = cli("campaign", "show", "small").out
    assert "weight 0.5; at most 5 attempts of an episode; pauses itself above 25% failed attempts" in text
    assert "calls" in text


def test_a_name_is_accepted_on_the_command_line_exactly_when_a_file_may_carry_it(bare_cli: CommandLine) -> None:
    for name in ("a", "a.b-c_1", "9x", "x" * 64, "X", ".a", "é", "x" * 65):
        in_file = bare_cli(
            "campaign", "validate", bare_cli.campaign(CAMPAIGN.replace("name: small", f"name: '{name}'"))
        )
        assert (in_file.code == 0) == (submission.NAME.fullmatch(name) is not None), name
