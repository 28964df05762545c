"""``campaign fork`` on a campaign that has closed a generation, and what is exported and shown of it."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from services.config import document
from services.core.problem import Split
from services.core.states import EpisodeState
from services.storage import campaigns, problems
from services.storage.engine import Database
from services.storage.records import CampaignRecord, Fork
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli
from tests.support.trained import mean_of, train

__all__ = ["bare_cli", "cli"]

THREE = [
    {"name": name, "litellm_model": f"openai/{name}", "price": {"input_per_million": "1", "output_per_million": "1"},
     "base_url": None, "api_key_env": None, "options": {}}
    for name in ("ada", "bob", "eve")
]  # fmt: skip


@pytest.fixture
def trained(cli: CommandLine, database: Database) -> CampaignRecord:
    """The campaign ``small`` with generation 0 closed: one episode a candidate, rewards 0 and 1."""
    assert cli("campaign", "submit", cli.campaign()).code == 0
    train(database, "small")
    return record(database, "small")


def record(database: Database, name: str) -> CampaignRecord:
    with database.transaction() as conn:
        return campaigns.by_name(conn, name)


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
        (("--set", 'protocol.roles=["worker"]'), "--set protocol.roles"),
        (("--set", 'protocol.roles=["worker","thinker"]', "--set", f"pool={json.dumps(THREE)}"), "3 models"),
        (("--set", f"pool={json.dumps(THREE)}"), "got '3 models', wanted 2 models as before"),
        (("--set", "hidden_size=8"), "hidden_size"),
        (("--set", "encoder.model=Qwen/Qwen3-0.6B"), "those of this one have 1024"),
        (("--set", "search.sigma0=0.5"), "the step size of the origin's generation"),
        (("--set", "search.population=2"), "at least 3 candidates"),
        (("--set", "search.replicates=9"), "search.replicates"),
        (("--set", "seed=-1"), "seed"),
        (("--set", "pool.1.name=ada"), "pool.1.name"),
        (("--set", "pool.0.price.input_per_million=-1"), "pool.0.price.input_per_million"),
        (("--set", 'pool.0.options={"api_key": "sk-SECRET"}'), "pool.0.options"),
        (("--set", "budget.episodes=13"), "at least 14 for one generation"),
        (("--set", "budget.calls=0"), "budget.calls"),
        (("--set", "budget.usd=NaN"), "budget.usd"),
        (("--set", "budget.usd=-1"), "budget.usd"),
        (("--set", "weight=0"), "weight"),
        (("--set", "max_failure_share=2"), "max_failure_share"),
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
    assert "SECRET" not in done.err
    with database.transaction() as conn:
        assert [record.name for record in campaigns.list_all(conn)] == ["small"]


def test_everything_but_theta_s_shape_may_change(cli: CommandLine, database: Database, trained: CampaignRecord) -> None:
    changes = {
        "seed": "11",
        "search.population": "6",
        "search.replicates": "2",
        "pool.0.price.input_per_million": "0.25",
        "protocol.max_turns": "4",
        "budget.calls": "900",
        "weight": "3",
        "max_failure_share": "1",
        "max_attempts": "7",
    }
    arguments = [word for field, value in changes.items() for word in ("--set", f"{field}={value}")]
    assert cli("campaign", "fork", "small", "--name", "branch", *arguments).code == 0
    forked = record(database, "branch")
    assert (forked.seed, forked.weight, forked.max_attempts, forked.budget.calls) == (11, 3.0, 7, 900)
    assert forked.dimension == trained.dimension
    campaign = document.from_json(forked.spec)
    assert (campaign.search.population, campaign.search.replicates, campaign.protocol.max_turns) == (6, 2, 4)
    assert f"{campaign.pool[0].price.input_per_million}" == "0.25"
    assert (campaign.weight, campaign.max_failure_share, campaign.max_attempts) == (3.0, 1.0, 7)
    assert campaign.budget.episodes == forked.budget.episodes == 2 * (6 * 2 + 2) + 2 + 4 * 6
    assert document.sha256(forked.spec) == forked.spec_sha256


def test_a_fork_that_counts_costs_resolves_their_unit(
    cli: CommandLine, database: Database, trained: CampaignRecord
) -> None:
    done = cli("campaign", "fork", "small", "--name", "thrifty", "--set", "search.cost_weight=0.2")
    assert done.code == 0, done.err
    search = document.from_json(record(database, "thrifty").spec).search
    assert search.cost_weight == 0.2
    assert search.cost_unit_usd is not None
    blind = cli("campaign", "fork", "small", "--name", "blind", "--set", "search.cost_weight=0.2",
                "--set", "search.algorithm=reinforce")  # fmt: skip
    assert blind.code == 1
    assert "does not rank candidates" in blind.err


def test_a_fork_of_a_fork_remembers_its_own_origin(cli: CommandLine, database: Database) -> None:
    text = CAMPAIGN.replace("budget: {usd: 10}", "budget: {usd: 10, calls: 500}\nweight: 2")
    assert cli("campaign", "submit", cli.campaign(text)).code == 0
    train(database, "small", closed=2)
    assert cli("campaign", "weight", "small", "9").code == 0
    assert cli("campaign", "budget", "small", "--add-calls", "100").code == 0
    assert cli("campaign", "fork", "small", "--name", "child", "--generation", "0").code == 0
    early = cli("campaign", "fork", "child", "--name", "grandchild")
    assert early.code == 1
    assert "at least one closed generation" in early.err
    train(database, "child")
    assert cli("campaign", "fork", "child", "--name", "grandchild", "--generation", "0").code == 0
    assert cli("campaign", "fork", "small", "--name", "latest").code == 0
    small, child = record(database, "small"), record(database, "child")
    assert child.forked_from == Fork(small.id, 0)
    assert record(database, "grandchild").forked_from == Fork(child.id, 0)
    assert record(database, "latest").forked_from == Fork(small.id, 1)
    for name in ("child", "grandchild", "latest"):  # as the specification has them, not as they were raised since
        forked = record(database, name)
        assert (forked.weight, forked.budget.calls, forked.budget.usd) == (2.0, 500, Decimal(10))


def test_a_specification_from_before_the_added_fields_can_be_forked_with_them(
    cli: CommandLine, database: Database, trained: CampaignRecord
) -> None:
    with database.transaction() as conn:
        conn.exec_driver_sql(
            "update campaign set spec = spec #- '{campaign,weight}' #- '{campaign,max_failure_share}' "
            "#- '{campaign,budget,calls}'"
        )
    assert cli("campaign", "show", "small").code == 0
    assert cli("campaign", "fork", "small", "--name", "plain").code == 0
    changes = ("--set", "weight=2", "--set", "budget.calls=50")
    assert cli("campaign", "fork", "small", "--name", "changed", *changes).code == 0
    plain, changed = record(database, "plain"), record(database, "changed")
    assert (plain.weight, plain.budget.calls) == (1.0, None)
    assert (changed.weight, changed.budget.calls) == (2.0, 50)


def test_exported_vectors_come_back_bit_for_bit(cli: CommandLine, trained: CampaignRecord, tmp_path: Path) -> None:
    assert cli("campaign", "export", "small", "--out", str(tmp_path)).code == 0
    (line,) = (tmp_path / "generations.jsonl").read_text().splitlines()
    generation = json.loads(line)
    mean = np.frombuffer(base64.b64decode(generation["mean_float64"]), "<f8")
    assert mean.tobytes() == mean_of(trained).tobytes()
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
