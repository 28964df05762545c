"""The commands that steer a campaign, and what has to hold whatever they do."""

from __future__ import annotations

from dataclasses import replace

from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import CampaignRecord
from tests.support.auditing import findings
from tests.support.command_line import CommandLine, Outcome

COMMANDS = {
    "pause": ("pause", "NAME", "--reason", "supper"),
    "resume": ("resume", "NAME"),
    "cancel": ("cancel", "NAME", "--reason", "not needed"),
    "budget": ("budget", "NAME", "--add-usd", "1", "--add-episodes", "5"),
    "budget --resume": ("budget", "NAME", "--add-usd", "1", "--resume"),
    "weight": ("weight", "NAME", "2.5"),
    "fork": ("fork", "NAME", "--name", "branch-of-NAME"),
}


def words(command: str, name: str = "small") -> tuple[str, ...]:
    return ("campaign", *(word.replace("NAME", name) for word in COMMANDS[command]))


def submitted(cli: CommandLine, name: str = "small") -> None:
    assert cli("campaign", "submit", cli.campaign(), "--name", name).code == 0


def record(database: Database, name: str = "small") -> CampaignRecord:
    """The campaign without its clock, so that two looks can be compared."""
    with database.transaction() as conn:
        return replace(campaigns.by_name(conn, name), running_seconds=0.0)


def assert_one_sentence(done: Outcome) -> None:
    if done.code == 0:
        assert len(done.out.splitlines()) == 1, done
        return
    assert done.code == 1
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")


def assert_accounts_hold(database: Database) -> None:
    """Leases, attempts, money and the journal stay in order; only the search and its stages are made up here."""
    made_up = {"I1", "I6", "I14"}
    real = [each for name, found in findings(database).items() if name not in made_up for each in found]
    assert [each for each in real if not each.where.startswith(("closed ", "released "))] == []
