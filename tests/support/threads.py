"""Many threads at once through one door."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Run ``work(0) .. work(count - 1)`` in as many threads, released together; raise the first error."""
    door = threading.Barrier(count)

    def enter(number: int) -> T:
        door.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(enter, range(count)))
