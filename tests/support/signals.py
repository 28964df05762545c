"""Signals to processes that may be gone by the time they are sent."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress


def send(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to each; one that another's end took with it is over already."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
