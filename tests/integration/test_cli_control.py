"""pause, resume, cancel, budget, weight and fork: in every state and twice, with a documented result each time."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from services.core.states import CampaignState
from services.storage.engine import Database
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.control import COMMANDS, assert_accounts_hold, assert_one_sentence, record, submitted, words
from tests.support.journal import assert_journal_tells_the_state, states_told
from tests.support.storage import query
from tests.support.trained import bring_to

__all__ = ["bare_cli", "cli"]

SUBMITTED, RUNNING, PAUSED = CampaignState.SUBMITTED, CampaignState.RUNNING, CampaignState.PAUSED
BUDGET_EXHAUSTED, COMPLETED = CampaignState.BUDGET_EXHAUSTED, CampaignState.COMPLETED
FAILED, CANCELLED = CampaignState.FAILED, CampaignState.CANCELLED
STATES = tuple(CampaignState)
ENDED = (COMPLETED, FAILED, CANCELLED)

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"

# Where a command leads from a state; it is refused in the states that are not listed.
MOVES = {
    "pause": {SUBMITTED: PAUSED, RUNNING: PAUSED, PAUSED: PAUSED, BUDGET_EXHAUSTED: PAUSED},
    "resume": {RUNNING: RUNNING, PAUSED: RUNNING, BUDGET_EXHAUSTED: RUNNING},
    "cancel": {state: CANCELLED for state in STATES if state not in (COMPLETED, FAILED)},
    "budget": {state: state for state in STATES if state not in ENDED},
    "budget --resume": {SUBMITTED: SUBMITTED, RUNNING: RUNNING, PAUSED: RUNNING, BUDGET_EXHAUSTED: RUNNING},
    "weight": {state: state for state in STATES if state not in ENDED},
    "fork": {state: state for state in STATES if state is not SUBMITTED},
}
ONLY_ONCE = {"fork"}
ALREADY = {"pause": PAUSED, "resume": RUNNING, "cancel": CANCELLED}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_every_state_twice(cli: CommandLine, database: Database, command: str) -> None:
    for state in STATES:
        name = f"was-{state.value.replace('_', '-')}"
        submitted(cli, name)
        before = replace(bring_to(database, name, state), running_seconds=0.0)
        told = len(states_told(database, name))
        target = MOVES[command].get(state)
        outcomes = cli(*words(command, name)), cli(*words(command, name))
        for outcome in outcomes:
            assert_one_sentence(outcome)
        assert outcomes[0].code == (1 if target is None else 0), (state, outcomes)
        assert outcomes[1].code == (1 if target is None or command in ONLY_ONCE else 0), (state, outcomes)
        after = record(database, name)
        assert after.state is (target or state)
        assert target is not None or after == before
        assert_journal_tells_the_state(database, name)
        assert len(states_told(database, name)) == told + (target not in (None, state))
        if command in ALREADY and target is not None:
            already = " already" if state is target else ""
            assert outcomes[0].out == f"campaign {name} is {target}{already}\n"
            assert outcomes[1].out == f"campaign {name} is {target} already\n"
    assert_accounts_hold(database)


def test_the_documented_results_are_those_of_the_commands() -> None:
    columns = [(SUBMITTED,), (RUNNING,), (PAUSED,), (BUDGET_EXHAUSTED,), (COMPLETED, FAILED), (CANCELLED,)]
    lines = OPERATIONS.read_text().split("## Control")[1].split("## Budgets")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    documented = {
        row[0].strip("`").replace(" --add-...", ""): {
            state: CampaignState(cell) if cell in set(CampaignState) else state
            for states, cell in zip(columns, row[1:], strict=True)
            for state in states
            if not cell.startswith("refused")
        }
        for row in rows
    }
    assert documented == MOVES


def test_what_is_refused_says_why(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    assert "not started" in cli("campaign", "resume", "small").err
    assert "at least one closed generation" in cli("campaign", "fork", "small", "--name", "branch").err
    bring_to(database, "small", COMPLETED)
    for command in ("pause", "resume", "cancel", "budget", "budget --resume", "weight"):
        refused = cli(*words(command))
        assert "campaign small is completed and cannot" in refused.err
        assert "it has ended" in refused.err


@pytest.mark.parametrize("state", [PAUSED, BUDGET_EXHAUSTED, RUNNING])
def test_a_cancelled_campaign_leaves_nothing_unfinished(
    cli: CommandLine, database: Database, state: CampaignState
) -> None:
    submitted(cli)
    bring_to(database, "small", state)
    assert cli("campaign", "cancel", "small").code == 0
    with database.transaction() as conn:
        assert query(conn, "select state, count(*) from episode group by state order by state") == [
            ("cancelled", 2),
            ("scored", 2),
        ]
        assert query(conn, "select count(*) from attempt where outcome = 'running'") == [(0,)]
        assert query(conn, "select state from generation order by number") == [("closed",), ("cancelled",)]
    assert record(database).spend.episodes_reserved == 3  # the one that never began is given back


def test_limits_grow_by_what_is_added_each_time(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    bring_to(database, "small", BUDGET_EXHAUSTED)
    before = record(database).budget
    done = cli("campaign", "budget", "small", "--add-usd", "1.5", "--add-episodes", "7", "--add-calls", "9")
    assert "unlimited calls" in done.out
    assert "it is budget_exhausted; `manage.py campaign resume small` lets it go on" in done.err
    after = record(database)
    assert after.budget == replace(before, episodes=before.episodes + 7, usd=Decimal("11.5"))
    assert after.state is BUDGET_EXHAUSTED
    assert cli("campaign", "budget", "small", "--add-usd", "1", "--resume").out.endswith("; it is running\n")
    assert record(database).state is RUNNING


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--add-calls"),
        (("--resume",), "nothing to add"),
        (("--add-usd", "NaN"), "--add-usd"),
        (("--add-usd", "1e999999"), "--add-usd"),
        (("--add-usd", "999999"), "--add-usd"),
        (("--add-episodes", "2147483647"), "--add-episodes"),
        (("--add-episodes", str(10**400)), "--add-episodes"),
        (("--add-calls", str(2**62)), "--add-calls"),
        (("--add-hours", "inf"), "--add-hours"),
    ],
)
def test_amounts_that_no_campaign_could_have_are_refused(
    cli: CommandLine, database: Database, arguments: tuple[str, ...], named: str
) -> None:
    submitted(cli)
    before = record(database)
    refused = cli("campaign", "budget", "small", *arguments)
    assert_one_sentence(refused)
    assert refused.code == 1
    assert named in refused.err
    assert record(database) == before


@pytest.mark.parametrize("weight", ["0", "1001", "nan", "inf"])
def test_weights_that_no_campaign_could_have_are_refused(cli: CommandLine, database: Database, weight: str) -> None:
    submitted(cli)
    refused = cli("campaign", "weight", "small", weight)
    assert_one_sentence(refused)
    assert refused.code == 1
    assert record(database).weight == 1.0


def test_a_stopped_campaign_says_what_to_do(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    bring_to(database, "small", BUDGET_EXHAUSTED)
    cure = "`manage.py campaign budget small --add-usd AMOUNT --resume`"
    shown = cli("campaign", "show", "small").out
    assert "budget_exhausted, budget of USD exhausted: limit 10, charged 9.5" in shown
    assert cure in shown
    watched = cli("campaign", "watch", "small")
    assert watched.code == 1
    assert watched.out.startswith("small: budget_exhausted (budget of USD exhausted: limit 10")
    assert cure in watched.err
    listed = cli("campaign", "list").out.splitlines()
    assert "budget_exhausted" in listed[2]
    assert listed[3].startswith("small: budget of USD exhausted")
    assert all(len(line) <= 100 for line in listed[:3])


def test_every_state_can_be_looked_at(cli: CommandLine, database: Database) -> None:
    for state in STATES:
        name = f"is-{state.value.replace('_', '-')}"
        submitted(cli, name)
        bring_to(database, name, state)
        for command in (("list",), ("export", name, "--out", str(cli.folder / name))):
            assert cli("campaign", *command).code == 0
        shown = json.loads(cli("campaign", "show", name, "--json").out)
        assert shown["campaign"]["state"] == state.value
        assert (shown["what_now"] is None) == (state in (RUNNING, COMPLETED))
        assert f"{name} (id {shown['campaign']['id']}): {state.value}" in cli("campaign", "show", name).out
