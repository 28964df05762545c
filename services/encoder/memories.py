"""What was computed most recently, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes."""
        ...


Kept = TypeVar("Kept", bound=Sized)


class Memories(Generic[Kept]):
    """The newest entries. Losing one costs its computation again, never other bits. Safe to use from many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: bytes) -> Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            return kept

    def put(self, key: bytes, entry: Kept) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = entry
                self.bytes += entry.size
            while self.bytes > self._max_bytes:
                self.bytes -= self._kept.popitem(last=False)[1].size
