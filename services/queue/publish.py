"""Sending episode messages: after the commit that marked their rows, in one batch where the broker knows batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kombu.exceptions
from celery import Celery
from celery.utils.nodenames import anon_nodename
from kombu import Connection, Producer
from kombu.utils.json import dumps
from kombu.utils.uuid import uuid

from services.core.errors import PrerequisiteMissing, TrinityError
from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.messages import EpisodeMessage
from services.queue.names import EPISODE_TASK, queue_for

# A frozen broker holds up a send for about this long, and the scheduler's loop with it. Only the publisher has these
# limits: a worker waits for messages much longer. No heartbeat, for nobody would answer it between two sends.
PATIENCE_SECONDS = 2.0
REDIS_PATIENCE = {"socket_timeout": PATIENCE_SECONDS, "socket_connect_timeout": PATIENCE_SECONDS}
AMQP_PATIENCE = {"read_timeout": PATIENCE_SECONDS, "write_timeout": PATIENCE_SECONDS}
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class BrokerUnavailable(TrinityError):
    """The broker did not take the messages. Nothing is lost: their rows are put back and sent again."""


@dataclass(frozen=True)
class Delivery:
    """One message to send; ``label`` is what people read in Flower, e.g. ``quickstart g3 c17 r5``."""

    episode_id: EpisodeId
    purpose: Purpose
    label: str


class Publisher:
    """Keeps one connection to the broker and sends batches over it. One thread uses it.

    Messages are what Celery's ``send_task`` would send, put together here because that costs a fraction. There is no
    ``task-sent`` event: it would double the messages, and a queue's length says the same. RabbitMQ is asked for no
    confirmation of each message, which would cost a round trip each, but once a batch whether it has taken it: it takes
    messages without a word even when it is frozen.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._origin = anon_nodename()
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._errors = broker_errors(app)

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send all or raise BrokerUnavailable; a failure may have sent some, which the claim makes harmless."""
        if not deliveries:
            return
        try:
            producer = self._connected()
            with producer.batch():
                for delivery in deliveries:
                    producer.publish(**self._message(delivery))
            if is_rabbitmq(self._app):
                # It answers in the order in which it was asked; a queue that is gone is an error and declared anew.
                for queue in {queue_for(delivery.purpose) for delivery in deliveries}:
                    producer.channel.queue_declare(queue, passive=True)
        except self._errors as error:
            self._disconnect()
            raise BrokerUnavailable(f"the broker took no messages: {said(error)}") from error

    def waiting(self) -> int:
        """Return how many messages wait at the broker; raise BrokerUnavailable when it does not say."""
        try:
            channel = self._connected().channel
            return sum(queue(channel).queue_declare().message_count for queue in self._app.conf.task_queues)
        except self._errors as error:
            self._disconnect()
            raise BrokerUnavailable(f"the broker does not answer: {said(error)}") from error

    def close(self) -> None:
        self._disconnect()
        self._app.close()

    def _connected(self) -> Producer:
        if self._producer is None:
            connection = impatient_connection(self._app)
            try:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                channel = connection.channel()
                for queue in self._app.conf.task_queues:
                    queue(channel).declare()
            except BaseException:
                connection.collect()
                raise
            self._connection, self._producer = connection, Producer(channel, auto_declare=False)
        return self._producer

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.collect()  # without the farewell that a frozen broker would not answer

    def _message(self, delivery: Delivery) -> dict[str, Any]:
        """Return what ``Producer.publish`` takes for one message of Celery's protocol 2."""
        task_id = uuid()
        headers = {
            "lang": "py",
            "task": EPISODE_TASK,
            "id": task_id,
            "shadow": None,
            "eta": None,
            "expires": None,
            "group": None,
            "group_index": None,
            "retries": 0,
            "timelimit": [None, None],
            "root_id": task_id,
            "parent_id": None,
            "argsrepr": "()",
            "kwargsrepr": delivery.label,
            "origin": self._origin,
            "ignore_result": False,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        }
        return {
            "body": dumps(([], EpisodeMessage(delivery.episode_id).to_kwargs(), EMBED)),
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "exchange": "",
            "routing_key": queue_for(delivery.purpose),
            "headers": headers,
            "delivery_mode": 2,
            "correlation_id": task_id,
            "reply_to": "",
        }


def said(error: Exception) -> str:
    """Return class and first line of what the broker or driver said; a batch hides it behind an error of its own."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {cause}".strip().splitlines()[0]


def is_rabbitmq(app: Celery) -> bool:
    return str(app.conf.broker_url).startswith("amqp")


def impatient_connection(app: Celery) -> Connection:
    """Return a connection, not yet made, on which nothing waits long for a broker that does not answer."""
    options = AMQP_PATIENCE if is_rabbitmq(app) else REDIS_PATIENCE
    return app.connection_for_write(heartbeat=0, connect_timeout=PATIENCE_SECONDS, transport_options=options)


def broker_errors(app: Celery) -> tuple[type[Exception], ...]:
    """Return what a broker that is away, full or without our queues makes its driver raise."""
    transport = app.connection_for_write().transport
    return (kombu.exceptions.KombuError, OSError, *transport.connection_errors, *transport.channel_errors)


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
    with impatient_connection(app) as connection, connection.channel() as channel:
        for queue in app.conf.task_queues:
            declared = queue(channel).queue_declare()
            lengths[queue.name] = declared.message_count
    return lengths
