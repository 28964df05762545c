"""The database itself refuses what must never be, whatever the code does."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest

from services.core.protocol.roles import Role
from services.storage import ledger
from services.storage.engine import Database
from tests.support.storage import scene

SECOND_GENERATION = """
insert into generation (campaign_id, number, kind, state, epoch, mean, sigma, checksum)
select campaign_id, 1, kind, state, epoch, mean, sigma, checksum from generation
"""
SAME_EPISODE = """
insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state)
select campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state from episode
"""
TWO_SUCCESSES = """
insert into attempt (episode_id, number, worker, outcome, ended_at)
select id, n, 'w', 'done', now() from episode, generate_series(1, 2) n
"""


def refused(url: str, statement: str) -> str:
    """Run a statement that must fail and return the constraint's name or the message."""
    with psycopg.connect(url) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    return caught.value.diag.constraint_name or str(caught.value)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("update campaign set state = 'sleeping', stop_reason = 'x', running_since = null", "ck_campaign_state"),
        ("update campaign set stop_reason = 'bored'", "ck_campaign_stop_reason"),
        (
            "update campaign set state = 'completed', running_since = null, ended_at = now()",
            "ck_campaign_stop_reason",
        ),
        ("update campaign set state = 'paused', stop_reason = 'x'", "ck_campaign_running_since"),
        ("update campaign set tokens_charged = token_budget + 1", "ck_campaign_tokens"),
        ("update campaign set usd_reserved = usd_budget + 0.000000000001", "ck_campaign_usd"),
        ("update campaign set usd_charged = -1", "ck_campaign_usd_positive"),
        ("update campaign set episodes_reserved = episode_budget + 1", "ck_campaign_episodes"),
        ("update episode set reward = 0.5", "ck_episode_reward"),
        ("update episode set state = 'scored'", "ck_episode_reward"),
        ("update episode set state = 'failed'", "ck_episode_failure"),
        ("update episode set state = 'running'", "ck_episode_lease"),
        ("update episode set lease_owner = 'me'", "ck_episode_lease_pair"),
        (
            "update episode set state = 'scored', reward = 1.5, scored_at = now(), termination = 'accepted', turns = 1",
            "ck_episode_reward_range",
        ),
        (
            "update episode set state = 'scored', reward = 'NaN', scored_at = now(), termination = 'x', turns = 1",
            "ck_episode_reward_range",
        ),
        ("update problem set answer = null", "ck_problem_answer"),
        ("update problem set scores = '{}'", "ck_problem_scores"),
        ("update generation set fitness = mean", "ck_generation_fitness"),
        ("update generation set mean = '\\x00'", "ck_generation_mean"),
        ("update candidate set theta = '\\x000000'", "ck_candidate_theta"),
        ("update candidate set kind = 'random'", "ck_candidate_vectorless"),
        ("insert into leader values (2, 0)", "ck_leader_single"),
        (SECOND_GENERATION, "uq_generation_open"),
        (SAME_EPISODE, "uq_episode_candidate_id_purpose_replicate"),
        (TWO_SUCCESSES, "uq_attempt_done"),
    ],
)
def test_a_rule_is_a_constraint(database: Database, database_url: str, statement: str, constraint: str) -> None:
    scene(database, candidates=1, replicates=1)
    assert refused(database_url, statement) == constraint


@pytest.mark.parametrize(
    "statement",
    [
        "update ledger_entry set usd = 0",
        "delete from ledger_entry",
        "truncate ledger_entry",
        "truncate campaign cascade",
    ],
)
def test_the_ledger_is_append_only(database: Database, database_url: str, statement: str) -> None:
    made = scene(database)
    claim = made.claim()
    with database.statement() as conn:
        ledger.reserve_call(
            conn,
            claim,
            turn=1,
            try_=1,
            agent=0,
            model="m",
            role=Role.WORKER,
            tokens=10,
            usd=Decimal("0.1"),
            lease_seconds=60,
        )
    assert "append-only" in refused(database_url, statement)
