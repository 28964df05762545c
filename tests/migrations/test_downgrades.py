"""Going back a revision keeps what the older tables have a place for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
