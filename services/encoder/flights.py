"""Of many threads that want the same thing at the same time, one computes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Flights(Generic[Value]):
    """Computations under way, by key. The others wait for the one that began, and share its result or error."""

    def __init__(self) -> None:
        self._flying: dict[bytes, Future[Value]] = {}
        self._lock = threading.Lock()

    def do(self, key: bytes, compute: Callable[[], Value]) -> Value:
        with self._lock:
            flight = self._flying.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flying[key] = Future()
        if mine:
            try:
                flight.set_result(compute())
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it, and so does our caller below
                flight.set_exception(error)
            finally:
                with self._lock:
                    del self._flying[key]
        return flight.result()
