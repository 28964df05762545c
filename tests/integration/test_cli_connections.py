"""What commands do when services go away under them."""

from __future__ import annotations

from pathlib import Path

from services.cli import connections
from services.config.settings import Settings
from services.local.redis import EmbeddedRedis


def test_queue_lengths_survive_the_broker_s_absence(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "redis")
    settings = Settings(broker_url=redis.start(), var_dir=tmp_path)
    try:
        with connections.open_queues(settings) as lengths:
            assert lengths() == {"episodes": 0, "validation": 0}
            redis.stop()
            assert lengths() == {}
            redis.start()
            assert lengths() == {"episodes": 0, "validation": 0}
    finally:
        redis.stop()
