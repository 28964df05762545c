"""``reproduce`` on real services: what is found, submitted, waited for and reported."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.cli import connections, studies, study_run, submission
from services.cli.study_run import Given
from services.config.changes import Change
from services.core.errors import TrinityError
from services.core.states import CampaignState
from services.core.studies.study import StudyName
from services.local import supervisor
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import Fork
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.small_product import ROOT, small_product
from tests.support.trained import bring_to
from tests.support.waiting import wait_for

__all__ = ["bare_cli", "cli"]


def prepared_base(cli: CommandLine, text: str | None = None) -> studies.PreparedStudy:
    file = cli.campaign() if text is None else cli.campaign(text)
    return studies.prepare(StudyName.TURNS, Path(file), connections.load_settings())


def carried_out(database: Database, planned: studies.PreparedStudy, *, again: bool = False) -> list[str]:
    """Carry out the base alone, whose campaign nobody runs here; return ``name: state``."""

    def alive() -> None:
        raise TrinityError("nobody runs it")

    given = Given(Path("small.yaml"), again=again)
    records = study_run.carried_out(database, connections.load_settings(), planned.runs[:1], given, alive)
    return [f"{record.name}: {record.state}" for record in records]


def names(database: Database) -> list[str]:
    with database.transaction() as conn:
        return [record.name for record in campaigns.list_all(conn)]


def test_what_is_missing_is_submitted_and_waited_for(cli: CommandLine, database: Database) -> None:
    planned = prepared_base(cli)
    for _ in range(2):  # the second call finds the campaign of the first
        with pytest.raises(TrinityError, match="nobody runs it"):
            carried_out(database, planned)
        assert names(database) == ["small"]


def test_an_interruption_says_what_goes_on_and_how_to_hold_it(
    cli: CommandLine, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    planned = prepared_base(cli)
    with pytest.raises(KeyboardInterrupt):
        study_run.carried_out(
            database, connections.load_settings(), planned.runs[:1], Given(Path("small.yaml")), interrupted
        )
    assert "`manage.py campaign pause small` holds it" in capfd.readouterr().err


def test_a_complete_campaign_of_the_same_specification_is_used_whatever_its_name(
    cli: CommandLine, database: Database
) -> None:
    assert cli("campaign", "submit", cli.campaign(), "--name", "earlier").code == 0
    bring_to(database, "earlier", CampaignState.COMPLETED)
    assert carried_out(database, prepared_base(cli)) == ["earlier: completed"]
    assert names(database) == ["earlier"]


def test_another_specification_problems_or_a_fork_are_not_the_same(cli: CommandLine, database: Database) -> None:
    settings = connections.load_settings()
    planned = prepared_base(cli)
    wanted = planned.runs[0]
    for name, change in (("sigma", Change("search.sigma0", 0.2)), ("seed", Change("seed", 4))):
        other = submission.prepare(Path(cli.campaign()), settings, name, [change])
        submission.submit(other, settings)
    forked = submission.renamed(wanted.prepared, "forked")
    with database.transaction() as conn:
        origin = campaigns.by_name(conn, "sigma").id
        new = submission.new_campaign(forked, Fork(origin, 0))
        campaigns.insert(conn, new, forked.problems)
    assert study_run.known(database, wanted) is None


@pytest.mark.parametrize("state", [CampaignState.PAUSED, CampaignState.BUDGET_EXHAUSTED, CampaignState.FAILED])
def test_a_campaign_that_stands_still_is_left_as_it_is_and_reported(
    cli: CommandLine, database: Database, state: CampaignState
) -> None:
    cli("campaign", "submit", cli.campaign())
    bring_to(database, "small", state)
    planned = prepared_base(cli)
    assert carried_out(database, planned) == [f"small: {state}"]
    with database.transaction() as conn:
        record = campaigns.by_name(conn, "small")
    found = study_run.campaign_of(database, planned.runs[0], record)
    assert found.facts is None
    assert found.advice
    assert ("--again" in found.advice) == (state is CampaignState.FAILED)


def test_what_failed_is_run_anew_when_asked_for(cli: CommandLine, database: Database) -> None:
    cli("campaign", "submit", cli.campaign())
    bring_to(database, "small", CampaignState.FAILED)
    with pytest.raises(TrinityError, match="nobody runs it"):
        carried_out(database, prepared_base(cli), again=True)
    assert names(database) == ["small", "small-2"]


@dataclass(frozen=True)
class Product:
    """The whole product in a folder of its own."""

    folder: Path
    environment: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "manage.py", *words]
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(argv, cwd=ROOT, env=self.environment, stdout=out, stderr=err)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def run(self, *words: str, seconds: float = 500) -> str:
        code = self.start(*words).wait(timeout=seconds)
        assert code == 0, self.text("err") + self.text("out")
        return self.text("out")


@pytest.fixture
def product() -> Iterator[Product]:
    made = Product(*small_product())
    try:
        yield made
    finally:
        supervisor.ask_to_stop(made.folder / "var")
        shutil.rmtree(made.folder, ignore_errors=True)


@pytest.mark.timeout(900)
def test_table_4_from_nothing_interrupted_and_taken_up_again(product: Product) -> None:
    base = str(product.folder / "tiny.yaml")
    process = product.start("reproduce", "table4", base)
    wait_for(lambda: "[2 of 4] submitted" in product.text("err"), seconds=280, what="the second campaign's submission")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert "interrupted; the same command goes on from here" in product.text("err")
    assert supervisor.status(product.folder / "var") is None
    document: Any = json.loads(product.run("reproduce", "table4", base, "--json"))
    said = product.text("err")
    assert "[1 of 4] tiny is completed already" in said
    assert supervisor.status(product.folder / "var") is None
    lines = {line["label"]: line for line in document["lines"]}
    assert list(lines) == ["sep-CMA-ES", "SFT", "random search", "REINFORCE"]
    for label, line in lines.items():
        assert line["n"] == 6, label
        assert 0 <= line["ours"]["low"] <= line["ours"]["estimate"] <= line["ours"]["high"] <= 1
        assert (line["difference"] is None) == (label == "sep-CMA-ES")
    assert {campaign["state"] for campaign in document["campaigns"]} == {"completed"}
    page = Path(document["page"])
    assert page == product.folder / "var" / "reports" / "tiny-table4" / "index.html"
    assert "Learning algorithms on tiny" in page.read_text()
    assert {path.name for path in page.parent.iterdir()} == {"index.html", "plot.png", "comparison.csv"}
