"""Memories of conversations that may go on: the newest ones, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict

from services.encoder.slm import Memory


class Memories:
    """What was read most recently. Losing an entry costs its passes again, never other bits."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, Memory] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def get(self, key: bytes) -> Memory | None:
        with self._lock:
            if (memory := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return memory

    def put(self, key: bytes, memory: Memory) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = memory
                self._bytes += memory.size
            while self._bytes > self._max_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].size
