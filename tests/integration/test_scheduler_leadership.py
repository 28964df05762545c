"""Who leads when leaders freeze, fail or lose their connections: real schedulers, one of them a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from scheduler.loop import Scheduler
from scheduler.office import Office
from services.core.events import EventType
from services.core.ids import CampaignId
from services.core.states import CampaignState
from services.storage import events, leadership
from services.storage.engine import Database
from tests.support.campaigns import small_campaign, submit
from tests.support.player import Player
from tests.support.postgres import execute
from tests.support.product import ROOT
from tests.support.scheduling import scheduling, wait_for_state
from tests.support.storage import query
from tests.support.waiting import wait_for

SCORE_ALL = """
update episode set state = 'scored', attempt = 1, reward = 0.5, termination = 'accepted', turns = 1, scored_at = now()
"""


@contextmanager
def process(database_url: str, broker_url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    settings = {"TRINITY_DATABASE_URL": database_url, "TRINITY_BROKER_URL": broker_url}
    with log.open("wb") as file:
        started = subprocess.Popen(
            [sys.executable, "-m", "scheduler"], cwd=ROOT, env=os.environ | settings, stdout=file, stderr=file
        )
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                started.send_signal(signal.SIGCONT)
            started.terminate()
            started.wait(20)


def leader(database: Database) -> tuple[int, str | None]:
    with database.transaction() as conn:
        ((epoch, holder),) = query(conn, "select epoch, holder from leader")
    return int(epoch), None if holder is None else str(holder)


def leads(database: Database, name: str) -> bool:
    return (leader(database)[1] or "").endswith(name)


def cut(database_url: str, condition: str) -> None:
    execute(
        database_url,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        f" where datname = current_database() and pid <> pg_backend_pid() and {condition}",
    )


def test_a_frozen_leader_is_replaced_and_commits_nothing_when_it_wakes_up(
    database: Database, database_url: str, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "TAKEOVER_SECONDS", 3.0)
    log = tmp_path / "log.txt"
    with ExitStack() as stack:
        frozen = stack.enter_context(process(database_url, broker_url, log))
        wait_for(partial(leads, database, f":{frozen.pid}"), seconds=30, what="the process to lead")
        stack.enter_context(scheduling(database_url, broker_url, name="standby"))
        old, _ = leader(database)
        campaign_id = freeze_in_mid_turn(database, frozen.pid)
        wait_for(partial(leads, database, "standby"), seconds=30, what="the standby to lead")
        stack.enter_context(Player(database))
        wait_for(partial(closed, database, 1), seconds=20, what="a closed generation")
        os.kill(frozen.pid, signal.SIGCONT)
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)
        wait_for(lambda: "leadership lost" in log.read_text(), seconds=10, what="the old leader to notice")
        assert frozen.poll() is None, "it stands by"
        assert leads(database, "standby")
    with database.transaction() as conn:
        assert query(conn, f"select count(*) from generation where number > 0 and epoch <= {old}") == [(0,)]


def freeze_in_mid_turn(database: Database, pid: int) -> CampaignId:
    """Stop a leader that waits for a campaign with the epoch in its hands; it gets the campaign while it is frozen."""
    campaign_id = submit(database, small_campaign())
    wait_for(partial(opened, database), seconds=10, what="the first generation")
    with database.transaction() as holder:
        query(holder, f"select id from campaign where id = {campaign_id} for no key update")
        with database.transaction() as conn:
            query(conn, SCORE_ALL)
            events.append(conn, campaign_id, EventType.EPISODE_SCORED, {})
        wait_for(partial(waits_for_the_campaign, database), seconds=10, what="the turn to begin")
        os.kill(pid, signal.SIGSTOP)
    return campaign_id


def opened(database: Database) -> bool:
    with database.transaction() as conn:
        return bool(query(conn, "select 1 from generation"))


def waits_for_the_campaign(database: Database) -> bool:
    waiting = "wait_event_type = 'Lock' and position('from campaign' in query) > 0"
    with database.transaction() as conn:
        return bool(query(conn, f"select 1 from pg_stat_activity where {waiting}"))


def closed(database: Database, count: int) -> bool:
    with database.transaction() as conn:
        return bool(query(conn, "select count(*) from generation where state = 'closed'")[0][0] >= count)


@pytest.mark.parametrize("error", [ZeroDivisionError, RuntimeError])
def test_a_leader_that_fails_lets_another_lead(
    database: Database, database_url: str, broker_url: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    once = threading.Event()
    step = Office._step

    def fail_once(office: Office) -> float:
        if not once.is_set():
            once.set()
            raise error
        return step(office)

    monkeypatch.setattr(Office, "_step", fail_once)
    campaign_id = submit(database, small_campaign())
    with (
        scheduling(database_url, broker_url, name="first"),
        scheduling(database_url, broker_url, name="second"),
        Player(database),
    ):
        wait_for(lambda: leader(database)[0] >= 2, seconds=5, what="another term of office")
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_an_exception_that_ends_the_process_frees_the_lock(
    database: Database, database_url: str, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(office: Office) -> float:
        raise SystemExit

    left = threading.Event()

    def run_until_it_leaves(scheduler: Scheduler) -> None:
        with suppress(SystemExit):
            run(scheduler)
        left.set()

    run, step = Scheduler.run, Office._step
    monkeypatch.setattr(Scheduler, "run", run_until_it_leaves)
    monkeypatch.setattr(Office, "_step", leave)
    with scheduling(database_url, broker_url):
        assert left.wait(10)
        with database.leadership() as lock:
            assert lock.try_acquire()
    monkeypatch.setattr(Office, "_step", step)


@pytest.mark.parametrize("condition", ["query like '%advisory%' or query = 'select 1'", "true"])
def test_a_leader_whose_sessions_are_cut_leads_again(
    database: Database, database_url: str, broker_url: str, condition: str
) -> None:
    campaign_id = submit(database, small_campaign())
    with scheduling(database_url, broker_url, name="cut"), Player(database) as player:
        wait_for(lambda: player.played > 5, seconds=20, what="some episodes")
        cut(database_url, f"application_name = 'cut' and ({condition})")
        wait_for_state(database, campaign_id, CampaignState.COMPLETED)


def test_a_cut_listener_hears_again(database: Database, database_url: str, broker_url: str) -> None:
    """With a poll of a minute only notifications can carry the campaign through its four turns."""
    with scheduling(database_url, broker_url, name="cut", poll_seconds=60.0):
        wait_for(partial(listens, database), seconds=10, what="the listener")
        for name in ("before", "after"):
            campaign_id = submit(database, small_campaign(name=name))
            with Player(database):
                wait_for_state(database, campaign_id, CampaignState.COMPLETED)
            cut(database_url, "application_name = 'cut' and query like 'LISTEN%'")
            wait_for(partial(listens, database), seconds=10, what="the listener to come back")


def listens(database: Database) -> bool:
    with database.transaction() as conn:
        return bool(query(conn, "select 1 from pg_stat_activity where left(query, 6) = 'LISTEN' and state = 'idle'"))
