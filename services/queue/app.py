"""The Celery application, made by whoever needs it: never at import, never Celery's current app."""

from __future__ import annotations

from celery import Celery as Celery  # the one name others use for annotations
from kombu import Queue

from services.queue.names import EPISODE_TASK, EPISODES_QUEUE, QUEUES

# RabbitMQ only: a worker leaves a broker, or a broker a worker, that has been silent for two of these.
HEARTBEAT_SECONDS = 30


def make_app(broker_url: str) -> Celery:
    """Return an application for ``broker_url`` (redis:// or amqp://) with every setting that correctness rests on.

    Messages are acknowledged early: the claim in Postgres is the receipt, and late acknowledgement would only add
    duplicates. There is no result backend, no retry, no ETA; a lost message is published again from its pending row.
    """
    app = Celery("trinity", broker=broker_url, backend=None, set_as_current=False, fixups=[])
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        task_ignore_result=True,
        result_backend_thread_safe=True,
        task_acks_late=False,
        task_default_queue=EPISODES_QUEUE,
        task_queues=[Queue(name) for name in QUEUES],
        task_create_missing_queues=False,
        task_routes={EPISODE_TASK: {"queue": EPISODES_QUEUE}},
        worker_send_task_events=True,
        worker_consumer="services.queue.consumer:Consumer",
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,  # with it a worker that connects again may consume nothing
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=True,
        worker_proc_alive_timeout=30,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_heartbeat=HEARTBEAT_SECONDS,
        broker_transport_options=transport_options(broker_url),
        enable_utc=True,
    )
    return app


def transport_options(broker_url: str) -> dict[str, float]:
    """Options of Redis; RabbitMQ's transport knows none of the names.

    Time-outs keep a frozen Redis from hanging anybody. What a worker has taken and not acknowledged is not booked
    there: two transactions a message, for something that comes back after an hour or never.
    """
    if not broker_url.startswith(("redis", "rediss")):
        return {}
    return {"ack_emulation": False, "socket_timeout": 5, "socket_connect_timeout": 2}
