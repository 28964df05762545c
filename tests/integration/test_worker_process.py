"""Worker processes on a real broker and a real Postgres: they play, they drain, and what hangs is handed back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from services.core.campaign import ProtocolSpec
from services.core.ids import CampaignId, EpisodeId
from services.core.protocol.roles import Role
from services.queue.app import make_app
from services.queue.publish import queue_lengths
from services.storage.engine import Database
from tests.support.campaigns import small_campaign
from tests.support.stub_process import StubWorker, send
from tests.support.waiting import wait_for
from tests.support.worker import open_campaign

Starter = Callable[..., StubWorker]
PROTOCOL = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)


@pytest.fixture
def worker(database_url: str, broker_url: str, tmp_path: Path) -> Starter:
    def made(*options: str, **settings: str) -> StubWorker:
        return StubWorker(database_url, broker_url, tmp_path / "worker.txt", options, settings)

    return made


@pytest.fixture
def campaign(database: Database) -> CampaignId:
    return open_campaign(database, small_campaign(protocol=PROTOCOL))


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.transaction() as conn:
        return [tuple(row) for row in conn.exec_driver_sql(statement).all()]


def episodes(database: Database) -> list[EpisodeId]:
    return [EpisodeId(row[0]) for row in rows(database, "SELECT id FROM episode ORDER BY id")]


def count(database: Database, condition: str) -> int:
    return int(rows(database, f"SELECT count(*) FROM {condition}")[0][0])


def test_a_worker_plays_what_it_is_sent_even_if_it_is_sent_twice(
    worker: Starter, campaign: CampaignId, database: Database, broker_url: str
) -> None:
    sent = episodes(database)
    with worker("--slots", "4", "--right-share", "1") as process:
        send(broker_url, [*sent, *sent])
        wait_for(lambda: count(database, "episode WHERE state = 'scored'") == len(sent), seconds=60, what="all scores")
        process.signal(signal.SIGTERM)
        assert process.wait(20) == 0, process.said()
    assert rows(database, "SELECT DISTINCT reward, attempt FROM episode") == [(1.0, 1)]
    assert count(database, "attempt") == count(database, "llm_call WHERE state = 'settled'") == len(sent)


def test_a_draining_worker_hands_back_what_hangs_and_ends_within_its_bound(
    worker: Starter, campaign: CampaignId, database: Database, broker_url: str
) -> None:
    options = ("--slots", "2", "--latency-ms", "600000")
    with worker(*options, TRINITY_DRAIN_SECONDS="2") as process:
        send(broker_url, episodes(database)[:3])
        wait_for(lambda: count(database, "llm_call WHERE state = 'open'") == 2, seconds=60, what="two open calls")
        begun = time.monotonic()
        for _ in range(3):
            process.signal(signal.SIGTERM)
            time.sleep(0.1)
        assert process.wait(20) == 0, process.said()
        assert 1.5 < time.monotonic() - begun < 5.0
    assert count(database, "episode WHERE state = 'running'") == 0
    assert rows(database, "SELECT outcome FROM attempt") == [("returned",), ("returned",)]
    assert rows(database, "SELECT state, cost_usd = reserved_usd FROM llm_call") == [("unknown", True)] * 2
    assert rows(database, "SELECT usd_reserved, tokens_reserved FROM campaign") == [(0, 0)]


def test_a_draining_worker_ends_as_soon_as_its_calls_have_ended(
    worker: Starter, campaign: CampaignId, database: Database, broker_url: str
) -> None:
    with database.transaction() as conn:
        conn.exec_driver_sql("UPDATE episode SET state = 'queued', published_at = now()")
    with worker("--slots", "2", "--latency-ms", "1000", TRINITY_DRAIN_SECONDS="60") as process:
        send(broker_url, episodes(database))
        wait_for(lambda: count(database, "llm_call WHERE state = 'open'") == 2, seconds=60, what="two open calls")
        process.signal(signal.SIGTERM)
        assert process.wait(20) == 0, process.said()
    assert count(database, "episode WHERE state = 'running'") == 0
    assert count(database, "llm_call WHERE state <> 'settled'") == 0
    assert count(database, "attempt WHERE outcome <> 'done'") == 0, "their only call was under way and counts"
    with closing(make_app(broker_url)) as app:
        waiting = sum(queue_lengths(app).values())
    assert count(database, "episode WHERE state = 'queued'") == waiting, "messages it had taken ahead are sent again"
    assert waiting < len(episodes(database)) - 2


def test_a_worker_dies_where_it_is_told_to(
    worker: Starter, campaign: CampaignId, database: Database, broker_url: str
) -> None:
    with worker("--slots", "1", "--die-on", "c0 r0") as process:
        send(broker_url, episodes(database)[:1])
        assert process.wait(60) == -signal.SIGKILL
    assert count(database, "episode WHERE state = 'running'") == 1
