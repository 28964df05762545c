"""Who runs the forward passes: on a CPU each alone, on a GPU those side by side that wait at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from services.encoder.reader import Reader, Request, State
from services.encoder.slm import limit_threads
from services.encoder.whole import WholeReader

T = TypeVar("T")
AnyReader = Reader | WholeReader

# Of one batch: bounds the memory of its activations and of its keys and values, which are there twice for a moment.
_PADDED_TOKENS = 16_384


class Passes(Protocol):
    """Runs passes and whatever else must run where passes run. ``RuntimeError`` once it is closed."""

    def submit(self, reader: AnyReader, request: Request) -> Future[State]: ...

    def call(self, work: Callable[[], T]) -> Future[T]: ...

    def close(self) -> None:
        """Let passes under way end and cancel waiting ones."""
        ...


class Alone:
    """Every conversation in passes of its own, ``parallel`` of them at a time on ``threads`` cores each.

    A state then never depends on what else is being read. On CPUs a batch is no faster either, and on a busy machine a
    second core for one pass mostly waits for the first.
    """

    def __init__(self, parallel: int, threads: int) -> None:
        self._executor = ThreadPoolExecutor(
            parallel, thread_name_prefix="encoder", initializer=limit_threads, initargs=(threads,)
        )

    def submit(self, reader: AnyReader, request: Request) -> Future[State]:
        return self._executor.submit(reader.state, request)

    def call(self, work: Callable[[], T]) -> Future[T]:
        return self._executor.submit(work)

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class _Asked:
    reader: AnyReader
    request: Request
    future: Future[Any]


@dataclass(frozen=True)
class _Work:
    work: Callable[[], Any]
    future: Future[Any]


class Together:
    """One thread that owns the device and reads, side by side, what was asked for within a few milliseconds."""

    def __init__(self, threads: int, most: int = 64, wait_seconds: float = 0.004) -> None:
        """Read at most ``most`` conversations in a batch; the first of them waits ``wait_seconds`` for company."""
        self._threads = threads
        self._most = most
        self._wait_seconds = wait_seconds
        self._asked: SimpleQueue[_Asked | _Work | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="encoder", daemon=True)
        self._thread.start()

    def submit(self, reader: AnyReader, request: Request) -> Future[State]:
        future: Future[State] = Future()
        self._put(_Asked(reader, request, future))
        return future

    def call(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._put(_Work(work, future))
        return future

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._asked.put(None)
        self._thread.join()

    def _put(self, item: _Asked | _Work) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            self._asked.put(item)

    def _serve(self) -> None:
        limit_threads(self._threads)
        while (item := self._asked.get()) is not None and not self._closed:
            batch, end = ([item], False) if isinstance(item, _Work) else self._company(item)
            self._answer(batch)
            if end:
                break
        self._cancel(item)

    def _company(self, first: _Asked) -> tuple[list[_Asked | _Work], bool]:
        """Return what came within the time, and whether the end was among it."""
        batch: list[_Asked | _Work] = [first]
        deadline = time.monotonic() + self._wait_seconds
        while len(batch) < self._most:
            try:
                item = self._asked.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return batch, False
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False

    def _answer(self, batch: Sequence[_Asked | _Work]) -> None:
        for item in batch:
            if isinstance(item, _Work):
                _settle(item.future, item.work)
        asked = [item for item in batch if isinstance(item, _Asked) and item.future.set_running_or_notify_cancel()]
        for reader, group in groupby(sorted(asked, key=lambda item: id(item.reader)), key=lambda item: item.reader):
            for part in _packed(list(group)):
                _read(reader, part)

    def _cancel(self, item: _Asked | _Work | None) -> None:
        while item is not None:
            item.future.cancel()
            item = None if self._asked.empty() else self._asked.get()
        while not self._asked.empty():
            if (left := self._asked.get()) is not None:
                left.future.cancel()


def _packed(asked: list[_Asked]) -> Iterator[list[_Asked]]:
    """Yield parts of similar length, none larger than the bound when filled up to its longest conversation."""
    part: list[_Asked] = []
    for item in sorted(asked, key=lambda item: len(item.request.chain[-1])):
        if part and (len(part) + 1) * len(item.request.chain[-1]) > _PADDED_TOKENS:
            yield part
            part = []
        part.append(item)
    yield part


def _read(reader: AnyReader, part: Sequence[_Asked]) -> None:
    """Read a batch; when it fails, read each alone, so that one bad candidate takes nobody along."""
    try:
        states = reader.states([item.request for item in part])
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked gets it
        if len(part) == 1:
            part[0].future.set_exception(error)
            return
        for item in part:
            _read(reader, [item])
        return
    for item, state in zip(part, states, strict=True):
        item.future.set_result(state)


def _settle(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asked gets it
            future.set_exception(error)
