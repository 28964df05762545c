"""Sending episode messages: after the commit that made their rows, in one pipelined batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import kombu.exceptions
from celery import Celery

from services.core.errors import PrerequisiteMissing, TrinityError
from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.messages import EpisodeMessage
from services.queue.names import EPISODE_TASK, queue_for


class BrokerUnavailable(TrinityError):
    """The broker did not take the messages. Nothing is lost: their rows stay pending and are sent again."""


@dataclass(frozen=True)
class Delivery:
    """One message to send; ``label`` is what people read in Flower, e.g. ``quickstart g3 c17 r5``."""

    episode_id: EpisodeId
    purpose: Purpose
    label: str


class Publisher:
    """Keeps one connection to the broker and sends batches over it."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send all or raise BrokerUnavailable; a failure may have sent some, which the claim makes harmless."""
        if not deliveries:
            return
        try:
            with self._app.producer_or_acquire() as producer, producer.batch():
                for delivery in deliveries:
                    self._app.send_task(
                        EPISODE_TASK,
                        kwargs=EpisodeMessage(delivery.episode_id).to_kwargs(),
                        kwargsrepr=delivery.label,
                        queue=queue_for(delivery.purpose),
                        producer=producer,
                        retry=False,
                    )
        except (kombu.exceptions.KombuError, *self._app.connection_for_write().transport.connection_errors) as error:
            raise BrokerUnavailable(f"the broker took no messages: {type(error).__name__}") from error

    def close(self) -> None:
        self._app.close()


def require_broker(app: Celery, timeout_seconds: float = 3.0) -> None:
    """Raise PrerequisiteMissing unless the broker answers within the time; the message never shows a password."""
    with app.connection_for_write() as connection:
        address = connection.as_uri()
        try:
            connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=timeout_seconds)
        except (kombu.exceptions.KombuError, OSError) as error:
            raise PrerequisiteMissing(
                f"the broker at {address} does not answer",
                "start one with `manage.py up`, or set TRINITY_BROKER_URL to one that runs",
            ) from error


def queue_lengths(app: Celery) -> dict[str, int]:
    """Return how many messages wait in each queue; a queue that does not exist yet has none."""
    lengths: dict[str, int] = {}
    with app.connection_for_write() as connection, connection.channel() as channel:
        for queue in app.conf.task_queues:
            declared = queue(channel).queue_declare()
            lengths[queue.name] = declared.message_count
    return lengths
