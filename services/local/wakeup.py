"""Waiting for signals without threads and without missing one."""

from __future__ import annotations

import select
import signal
import socket
from types import FrameType, TracebackType
from typing import Self

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Wakeup:
    """While entered, ``wait`` returns as soon as a child ends or a stop is asked for; main thread only.

    Attributes:
        stops: how many times a stop was asked for.
    """

    def __init__(self) -> None:
        self.stops = 0
        self._ears: tuple[socket.socket, socket.socket] | None = None
        self._before: dict[signal.Signals, object] = {}
        self._before_fd = -1

    def __enter__(self) -> Self:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._ears = reader, writer
        self._before_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in STOPPING:
            # What nohup and background jobs ignore stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _note_child)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._before_fd)
        for ear in self._ears or ():
            ear.close()
        self._ears = None

    def wait(self, seconds: float) -> None:
        """Returns after ``seconds``, or at once when a signal has come since the last call."""
        if self._ears is None:
            raise RuntimeError("wait() outside of the with statement")
        reader, _ = self._ears
        if select.select([reader], [], [], seconds)[0]:
            # Signals are marks on a slate, not a queue: whoever waits looks at everything afterwards.
            while _drained(reader):
                pass

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1


def _note_child(number: int, frame: FrameType | None) -> None:
    """Only there so that the signal interrupts the wait."""


def _drained(reader: socket.socket) -> bytes:
    try:
        return reader.recv(4096)
    except BlockingIOError:
        return b""
