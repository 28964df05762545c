"""`campaign sweep`: a campaign for each value of a field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.config import document
from services.storage import campaigns, overview
from services.storage.engine import Database
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli

__all__ = ["bare_cli", "cli"]

SETTING = "search.cost_weight=0,0.05,0.2"


def test_the_plan_of_a_sweep_needs_no_service(bare_cli: CommandLine) -> None:
    done = bare_cli("campaign", "sweep", bare_cli.campaign(), "--set", SETTING, "--plan")
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    names = [line[0] for line in lines[2:]]
    assert names == ["small-cost_weight-0", "small-cost_weight-0.05", "small-cost_weight-0.2", "all"]
    one, total = json_of(bare_cli, "--set", "search.cost_weight=0.05"), json_of(bare_cli, "--set", SETTING)
    assert total["all"]["episodes"] == 3 * one["all"]["episodes"]
    assert total["field"] == "search.cost_weight"
    assert [each["id"] for each in total["campaigns"]] == [None, None, None]


def json_of(command: CommandLine, *arguments: str) -> Any:
    done = command("campaign", "sweep", command.campaign(), *arguments, "--plan", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_sweep_submits_a_campaign_for_each_value(cli: CommandLine, database: Database) -> None:
    done = cli("campaign", "sweep", cli.campaign(), "--set", SETTING)
    assert done.code == 0, done.err
    assert "submitted 3 campaigns" in done.out
    assert "campaign compare small-cost_weight-0 small-cost_weight-0.05 small-cost_weight-0.2" in done.err
    with database.transaction() as conn:
        rows = overview.campaign_rows(conn)
        specs = [document.from_json(campaigns.by_name(conn, row.name).spec).search for row in rows]
    assert [spec.cost_weight for spec in specs] == [0.0, 0.05, 0.2]
    without, *units = [spec.cost_unit_usd for spec in specs]
    assert without is None, "costs do not count"
    assert len(set(units)) == 1
    assert all(units)


def test_all_or_none(cli: CommandLine, database: Database) -> None:
    assert cli("campaign", "submit", cli.campaign(), "--name", "small-seed-2").code == 0
    done = cli("campaign", "sweep", cli.campaign(), "--set", "seed=1,2")
    assert done.code == 1
    assert "small-seed-2" in done.err
    with database.transaction() as conn:
        assert [row.name for row in overview.campaign_rows(conn)] == ["small-seed-2"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("search.cost_weight", "FIELD=VALUE"),
        ("=1", "FIELD=VALUE"),
        ("search.cost_weight=-1", "search.cost_weight"),
        ("search.cost_wait=1", "cost_wait"),
        ("search.cost_weight=0.1,0.10", "two make small-cost_weight-0.1"),
        ("pool.9.name=x", "0 to 1"),
        ("seed.x=1", "a field of a campaign file"),
        ("search.cost_weight=[", "--set"),
    ],
)
def test_a_wrong_sweep_says_what_is_wrong(bare_cli: CommandLine, setting: str, named: str) -> None:
    done = bare_cli("campaign", "sweep", bare_cli.campaign(), "--set", setting, "--plan")
    assert done.code == 1
    assert named in done.err


def test_any_field_may_be_swept_also_lists_and_parts_of_the_pool(bare_cli: CommandLine) -> None:
    file = bare_cli.campaign(CAMPAIGN, "other.yaml")
    for setting, names in (
        ("protocol.roles=[worker],[worker, verifier]", ["small-roles-worker", "small-roles-worker-verifier"]),
        ("pool.0.price.output=1,8", ["small-output-1", "small-output-8"]),
        ("head.kind=linear,sparse", ["small-kind-linear", "small-kind-sparse"]),
        ("budget.usd=null,5", ["small-usd-none", "small-usd-5"]),
    ):
        done = bare_cli("campaign", "sweep", file, "--set", setting, "--plan", "--json")
        assert done.code == 0, done.err
        assert [each["name"] for each in json.loads(done.out)["campaigns"]] == names
