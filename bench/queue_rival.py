"""``python -m bench.queue_rival``: a bare Celery worker whose task does nothing but count.

Broker, pool, slots and settings are those of our worker. ``plain`` is Celery as it comes: without the two settings that
make ours cheaper, events sent in groups and no bookkeeping of unacknowledged messages in Redis.
"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from celery import Celery

from services.queue.app import make_app
from services.queue.names import EPISODE_TASK, EPISODES_QUEUE

COUNT = struct.Struct("<qd")  # tasks done, and when the last one was, on the machine's monotonic clock
NOTHING = COUNT.pack(0, 0.0)
CELERYS_CONSUMER = "celery.worker.consumer:Consumer"


def application(broker_url: str, *, events: bool, plain: bool) -> Celery:
    """Return our application, with or without the task events that Flower lives on."""
    app = make_app(broker_url)
    app.conf.update(task_send_sent_event=events, worker_send_task_events=events)
    if plain:
        options = {name: value for name, value in app.conf.broker_transport_options.items() if name != "ack_emulation"}
        app.conf.update(worker_consumer=CELERYS_CONSUMER, broker_transport_options=options)
    return app


def send(app: Celery, tasks: int) -> float:
    """Enqueue tasks in one pipelined batch, the fastest way that Celery itself has; return when the first one was."""
    started = time.monotonic()
    with app.producer_or_acquire() as producer, producer.batch():
        for number in range(tasks):
            app.send_task(
                EPISODE_TASK,
                kwargs={"version": 1, "episode_id": number + 1},
                queue=EPISODES_QUEUE,
                producer=producer,
                retry=False,
            )
    return started


def done(counter: Path) -> tuple[int, float]:
    """Return how many tasks the worker has done so far, and when the last one was."""
    count, last = COUNT.unpack(counter.read_bytes())
    return int(count), float(last)


def main(words: Sequence[str]) -> int:
    """Consume until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", required=True)
    parser.add_argument("--slots", required=True)
    parser.add_argument("--counter", type=Path, required=True)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args(words)
    app = application(given.broker, events=given.events, plain=given.plain)
    lock = threading.Lock()
    with given.counter.open("r+b") as file, mmap.mmap(file.fileno(), COUNT.size) as memory:

        def count(**_: object) -> None:
            with lock:
                number, _last = COUNT.unpack_from(memory)
                COUNT.pack_into(memory, 0, number + 1, time.monotonic())

        app.task(count, name=EPISODE_TASK, bind=False, typing=False)
        arguments = ["--quiet", "worker", "--pool=threads", f"--concurrency={given.slots}", "--loglevel=ERROR"]
        arguments += ["--hostname=rival@%h", "--without-gossip", "--without-mingle"]
        app.worker_main(arguments + (["--task-events"] if given.events else []))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
