"""The one Celery task, registered on an application that its process made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.core.errors import DatabaseUnavailable
from services.core.ids import EpisodeId
from services.queue.app import Celery
from services.queue.messages import EpisodeMessage, UnknownMessage
from services.queue.names import EPISODE_TASK
from services.telemetry.logs import Log


def register(app: Celery, run: Callable[[EpisodeId], None], log: Log) -> None:
    """Register the episode task. A message it cannot act on is dropped: its episode is published again."""

    def run_episode(**kwargs: Any) -> None:
        try:
            run(EpisodeMessage.from_kwargs(kwargs).episode_id)
        except UnknownMessage as error:
            log.error("message refused", reason=str(error))
        except DatabaseUnavailable as error:
            log.warning("database unavailable, the episode waits", reason=str(error))

    app.task(run_episode, name=EPISODE_TASK, bind=False, typing=False, shared=False)
