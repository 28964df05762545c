"""``manage.py db audit`` on a real database."""

from __future__ import annotations

import json

from services.storage.audit import INVARIANTS
from services.storage.engine import Database
from tests.support.campaigns import small_campaign, submit
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.story import Stage

__all__ = ["bare_cli", "cli"]


def played(database: Database, name: str) -> None:
    stage = Stage(database)
    stage.take_office()
    campaign_id = submit(database, small_campaign(name=name))
    stage.advance(campaign_id)
    stage.play(campaign_id)


def test_a_clean_database_is_called_so(cli: CommandLine, database: Database) -> None:
    played(database, "small")
    done = cli("db", "audit")
    assert done.code == 0, done.out
    rows = [line.split() for line in done.out.splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows] == [(invariant.id, "ok") for invariant in INVARIANTS]
    assert done.err == "", "a short audit says nothing about its progress"


def test_findings_are_listed_and_the_exit_status_is_1(cli: CommandLine, database: Database) -> None:
    played(database, "small")
    with database.transaction() as conn:
        conn.exec_driver_sql("update episode set available_at = now() + interval '1 week' where state = 'pending'")
        conn.exec_driver_sql("update campaign set max_attempts = 1, calls_started = calls_started + 1")
    done = cli("db", "audit")
    assert done.code == 1
    assert "calls_started" in done.out
    table, _, listed = done.out.partition("\n\n")
    outcomes = {line.split()[0]: line.rsplit("  ", 1)[1] for line in table.splitlines()[2:]}
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "ok"} == {
        "I3": "1 finding",
        "I12": "14 findings",
    }
    assert listed.count("due within 3600 s") == 14


def test_only_the_first_findings_are_shown(cli: CommandLine, database: Database) -> None:
    played(database, "small")
    played(database, "other")
    with database.transaction() as conn:
        conn.exec_driver_sql("update episode set available_at = now() + interval '1 week' where state = 'pending'")
    done = cli("db", "audit")
    assert "28 findings" in done.out
    assert "and 8 more; --json lists all" in done.out
    assert cli("db", "audit", "small").out.count("due within 3600 s") == 14


def test_json_holds_every_finding(cli: CommandLine, database: Database) -> None:
    played(database, "small")
    with database.transaction() as conn:
        conn.exec_driver_sql("update campaign set tokens_charged = tokens_charged + 1")
    done = cli("db", "audit", "small", "--json")
    assert done.code == 1
    verdicts = {verdict["id"]: verdict for verdict in json.loads(done.out)}
    assert list(verdicts) == [invariant.id for invariant in INVARIANTS]
    (finding,) = verdicts["I3"]["findings"]
    assert finding["campaign"] == "small"
    assert finding["where"] == "tokens_charged"
    assert finding["found"] == "421"
    assert finding["wanted"] == "the sum over its calls, 420, and over its ledger, 420"


def test_an_unknown_campaign_is_refused_in_a_sentence(cli: CommandLine) -> None:
    done = cli("db", "audit", "nobody")
    assert done.code == 1
    assert "'nobody'" in done.err
