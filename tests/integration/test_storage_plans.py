"""Hot statements stay quick when the tables have grown: no plan reads a whole table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import TextClause

from services.storage import episodes, events, generations, leases, ledger, limits, outbox, replies
from services.storage.engine import Database
from tests.support.storage import Scene, open_next, query, scene

ROWS = """
insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state, attempt,
    reward, termination, turns, scored_at)
select campaign_id, generation_id, candidate_id, 'validation', n, problem_id, 1, 'scored', 1, 0.5, 'accepted', 1, now()
from (select * from episode order by id limit 1) e, generate_series(1, 20000) n;
insert into attempt (episode_id, number, worker, outcome, ended_at)
select id, 1, 'w', 'done', now() from episode where state = 'scored';
insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state, reserved_usd,
    reserved_tokens, cost_usd, settled_at)
select campaign_id, id, 1, 1, 1, 0, 'm', 'worker', 'settled', 0, 0, 0, now() from episode where state = 'scored';
insert into event (campaign_id, type, payload, processed_at)
select campaign_id, 'episode.scored', '{}', now() from episode where state = 'scored';
analyze;
"""


@pytest.fixture
def grown(database: Database) -> Scene:
    made = scene(database, candidates=32, replicates=16)
    with database.transaction() as conn:
        for statement in ROWS.split(";\n"):
            conn.exec_driver_sql(statement)
    return made


def seq_scans(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if plan.get("Node Type") == "Seq Scan":
            yield plan["Relation Name"]
        for value in plan.values():
            yield from seq_scans(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from seq_scans(value)


BIG = {"episode", "attempt", "llm_call", "ledger_entry", "event"}
FENCE: dict[str, Any] = {"id": 5, "attempt": 1, "owner": "w"}
CLAIM = {"id": 5, "token": "w#1", "worker": "w", "lease": 60.0}
CALL = {
    "place": 0,
    "campaign": 1,
    "episode": 5,
    "attempt": 1,
    "owner": "w",
    "turn": 1,
    "try": 1,
    "agent": 0,
    "model": "m",
    "role": "worker",
    "tokens": 1,
    "usd": "1",
    "lease": 60.0,
    "meter": "k",
    "granted": True,
    "probe": False,
}
SETTLED = {
    "id": 5,
    "usd": "1",
    "tokens": 1,
    "prompt": 1,
    "completion": 0,
    "estimated": False,
    "latency": 1.0,
    "meter": "k",
    "answered": True,
}
SCORED = {"id": 5, "attempt": 1, "owner": "w", "reward": 1.0, "termination": "accepted", "count": 0, "turns": []}
BEATEN = {"ids": [5, 6], "attempts": [1, 1], "owners": ["w", "w"], "lease": 60.0}
FAILED = {**FENCE, "retry": True, "backoff": 1.0, "kind": "E", "detail": "", "channel": "trinity"}


def rows(row: dict[str, Any]) -> dict[str, Any]:
    """Return the one parameter of a batch of two."""
    return {"rows": json.dumps([row, row])}


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        pytest.param(episodes.CLAIM, rows(CLAIM), id="claim"),
        pytest.param(episodes.SCORE, rows(SCORED), id="score"),
        pytest.param(
            episodes.NOTIFY_FINISHED, {"generations": [1], "campaigns": [1], "channel": "trinity"}, id="notify"
        ),
        pytest.param(episodes.FAIL, FAILED, id="fail"),
        pytest.param(episodes.GIVE_BACK, {**FENCE, "seconds": 1.0}, id="give back"),
        pytest.param(leases.HEARTBEAT, BEATEN, id="beat"),
        pytest.param(leases.AFFECTED, {"orphan": 60.0}, id="sweep"),
        pytest.param(ledger.RESERVE, rows(CALL), id="reserve"),
        pytest.param(ledger.SETTLE, rows(SETTLED), id="settle"),
        pytest.param(ledger.LEFT_OPEN, {"episode": 5, "attempt": 1}, id="left open"),
        pytest.param(ledger.GIVE_UP, {"calls": [5, 6]}, id="give up"),
        pytest.param(ledger.ABANDONED, {"ids": [1], "orphan": 60.0}, id="abandoned"),
        pytest.param(limits.USE, {"keys": ["k"], "rows": json.dumps([CALL]), "counted": 62.0}, id="limits"),
        pytest.param(replies.RECALL, rows(CALL | {"key": "k", "asked": "k"}), id="recall"),
        pytest.param(outbox.WAITING, {"window": 48, "republish": 60.0}, id="outbox"),
        pytest.param(
            outbox.LOCK, {"campaigns": [1], "counts": [48], "window": 48, "republish": 60.0}, id="lock what is sent"
        ),
        pytest.param(outbox.MARK, {"ids": [5, 6]}, id="mark"),
        pytest.param(outbox.PUT_BACK, {"ids": [5, 6], "attempts": [0, 0]}, id="put back"),
        pytest.param(events.UNPROCESSED, {"limit": 500}, id="events"),
        pytest.param(events.DUE, {"limit": 500}, id="due"),
    ],
)
def test_hot_statements_use_indexes(grown: Scene, statement: TextClause, values: dict[str, Any]) -> None:
    with grown.database.transaction() as conn:
        explained = type(statement)("explain (format json) " + statement.text)
        plan = conn.execute(explained, values).scalar_one()
    assert BIG.isdisjoint(seq_scans(plan)), json.dumps(plan, indent=1)


def test_the_barrier_reads_one_generation(grown: Scene) -> None:
    with grown.database.transaction() as conn:
        assert generations.unfinished(conn, grown.generation) == 512
        with pytest.raises(Exception, match="uq_generation_open"):
            open_next(conn, grown.campaign, grown.epoch, 1, 1, 1)


def test_claims_stay_quick_on_grown_tables(grown: Scene) -> None:
    with grown.database.transaction() as conn:
        (row,) = query(conn, "select count(*) from episode")
    assert row == (20_512,)
    assert [grown.claim(place).attempt for place in range(5)] == [1] * 5
