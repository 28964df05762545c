"""Going back a revision keeps what the older tables have a place for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy.exc import IntegrityError

from services.storage import coordinators, schema
from services.storage.engine import Database
from services.storage.records import NewCoordinator
from tests.support.storage import DIMENSION, scene


def test_coordinators_of_searches_survive_without_checkpoints(database: Database, database_url: str) -> None:
    made = scene(database)
    new = NewCoordinator(made.campaign, "searched", 0, np.zeros(DIMENSION), {}, {}, {})
    with database.transaction() as conn:
        conn.exec_driver_sql("update campaign set reading = '{}'")
        coordinators.release_by_hand(conn, replace(new, name="chosen"))
        coordinators.add_imported(conn, replace(new, name="imported", campaign_id=None, description={}, reading={}))
        coordinators.release(conn, new, epoch=made.epoch)
    database.close()
    schema.downgrade(database_url, "0002")
    schema.upgrade(database_url)
    with database.transaction() as conn:
        (kept,) = coordinators.list_all(conn)
        assert (kept.name, kept.origin, kept.reading) == ("searched", "search", None)


def test_calls_that_kept_replies_answered_have_no_place_in_older_tables(database: Database, database_url: str) -> None:
    made = scene(database)
    made.claim()
    with database.transaction() as conn:
        conn.exec_driver_sql(
            "insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state,"
            " reserved_usd, reserved_tokens, cost_usd, settled_at, cache_hit) select campaign_id, id, 1, 1, 1, 0, 'm',"
            " 'worker', 'settled', 0, 0, 0, now(), true from episode where state = 'running'"
        )
    database.close()
    with pytest.raises(IntegrityError, match="no_hits"):
        schema.downgrade(database_url, "0004")
    with database.transaction() as conn:
        assert schema.current_revision(conn) == "0005"
        conn.exec_driver_sql("delete from llm_call")
    database.close()
    schema.downgrade(database_url, "0004")
    schema.upgrade(database_url)
