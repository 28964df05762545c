"""Commands at one campaign from many machines at once, and with somebody else's locks in the way."""

from __future__ import annotations

import random

import pytest

from services.cli import main, steering
from services.core.errors import DatabaseUnavailable
from services.core.states import CampaignState
from services.storage import campaign_states, campaigns, engine
from services.storage.engine import Database
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.control import assert_accounts_hold, record, submitted, words
from tests.support.journal import assert_journal_tells_the_state, states_told
from tests.support.storage import query
from tests.support.threads import at_once
from tests.support.trained import EXHAUSTED, bring_to
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def _one_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer sets and removes this variable at every command, which threads of one process see half done."""
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "1")


__all__ = ["bare_cli", "cli"]

RUNNING, PAUSED = CampaignState.RUNNING, CampaignState.PAUSED
BUDGET_EXHAUSTED, CANCELLED = CampaignState.BUDGET_EXHAUSTED, CampaignState.CANCELLED


def random_command(choices: random.Random, ending: bool) -> tuple[str, ...]:
    commands = ["pause", "resume", "budget", "budget --resume", "weight", *(["cancel"] if ending else [])]
    return words(choices.choice(commands))


@pytest.mark.parametrize("state", [RUNNING, PAUSED, BUDGET_EXHAUSTED])
def test_eight_machines_at_once_leave_a_legal_state(cli: CommandLine, database: Database, state: CampaignState) -> None:
    submitted(cli)
    limit = bring_to(database, "small", state).budget.usd
    assert limit is not None

    def machine(number: int) -> list[tuple[str, int]]:
        choices, codes = random.Random(number), []
        for turn in range(5):
            command = random_command(choices, ending=turn == 4)
            codes.append((command[1], main.run(command)))
            if number == 0:
                with database.transaction() as conn:  # a worker finds the budget used up
                    campaign_states.exhaust(conn, campaigns.by_name(conn, "small").id, EXHAUSTED)
        return codes

    outcomes = [outcome for machine_outcomes in at_once(8, machine) for outcome in machine_outcomes]
    assert {code for _, code in outcomes} <= {0, 1}
    assert_journal_tells_the_state(database, "small")
    raised = sum(1 for command, code in outcomes if command == "budget" and code == 0)
    assert record(database).budget.usd == limit + raised
    assert all(code == 0 for command, code in outcomes if command == "cancel")
    assert_accounts_hold(database)


def test_one_of_many_cancels_cancels(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    bring_to(database, "small", RUNNING)
    assert at_once(8, lambda _: main.run(("campaign", "cancel", "small"))) == [0] * 8
    assert states_told(database, "small").count(CANCELLED) == 1


def test_one_of_many_forks_gets_the_name(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    bring_to(database, "small", RUNNING)
    codes = at_once(4, lambda _: main.run(words("fork")))
    assert sorted(codes) == [0, 1, 1, 1]


class InTheWay:
    """Holds a campaign's row until it is let go."""

    def __init__(self, database: Database) -> None:
        self._transaction = database.transaction()
        conn = self._transaction.__enter__()
        conn.exec_driver_sql("select id from campaign where name = 'small' for update")

    def let_go(self) -> None:
        self._transaction.__exit__(None, None, None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.SESSION, "lock_timeout", "100ms")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", ["pause", "resume", "cancel", "weight"])
def test_a_lock_that_is_let_go_costs_a_repetition(
    cli: CommandLine, database: Database, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    submitted(cli)
    bring_to(database, "small", PAUSED)
    holder = InTheWay(database)
    monkeypatch.setattr("services.cli.steering.time.sleep", lambda seconds: holder.let_go())
    done = cli(*words(command))
    assert done.code == 0, done.err
    assert done.err.count("trying again") == 1
    assert_journal_tells_the_state(database, "small")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", ["pause", "cancel", "budget", "budget --resume"])
def test_a_lock_that_is_not_granted_ends_in_a_sentence_and_changes_nothing(
    cli: CommandLine, database: Database, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    submitted(cli)
    bring_to(database, "small", BUDGET_EXHAUSTED)
    before = record(database)
    naps: list[float] = []
    monkeypatch.setattr("services.cli.steering.time.sleep", naps.append)
    holder = InTheWay(database)
    refused = cli(*words(command))
    holder.let_go()
    assert refused.code == 1
    assert refused.err.splitlines()[-1].endswith("another process holds it; try again")
    assert len(naps) == (0 if command.startswith("budget") else len(steering.RETRY_SECONDS))
    assert record(database) == before
    assert cli(*words(command)).code == 0


def test_a_deadlock_is_somebody_s_loss_but_not_the_command_s(cli: CommandLine, database: Database) -> None:
    submitted(cli)
    bring_to(database, "small", RUNNING)

    def lock_backwards() -> None:
        with database.transaction() as conn:
            conn.exec_driver_sql("select id from episode order by id for update")
            door.wait()
            wait_for(lambda: waiting(database), seconds=10, what="cancel to wait for an episode")
            conn.exec_driver_sql("select id from campaign for update")

    class Door:
        """Lets cancel begin once the episodes are locked."""

        def __init__(self) -> None:
            self.locked = False

        def wait(self) -> None:
            self.locked = True

    door = Door()

    def act(number: int) -> int:
        if number == 0:
            try:
                lock_backwards()
            except DatabaseUnavailable:
                return 0
            return 0
        wait_for(lambda: door.locked, seconds=10, what="the episodes to be locked")
        return main.run(("campaign", "cancel", "small"))

    assert at_once(2, act) == [0, 0]
    assert record(database).state is CANCELLED
    assert_journal_tells_the_state(database, "small")


def waiting(database: Database) -> bool:
    with database.transaction() as conn:
        return bool(query(conn, "select 1 from pg_stat_activity where wait_event_type = 'Lock'"))
