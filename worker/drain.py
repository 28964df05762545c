"""The end of a worker process within a bound: nothing new, a while for what runs, the rest handed back."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from services.core.errors import DatabaseUnavailable
from services.storage import episodes
from services.storage.records import ClaimedEpisode
from worker.episode import STOPPING
from worker.outages import through_outage
from worker.runtime import Runtime

HAND_BACK_SECONDS = 2.0


@dataclass
class Drain:
    """Ends the process ``seconds`` after it was asked to stop, if it has not ended by itself by then.

    A thread that hangs in a call cannot be interrupted, hence the hard end.

    Attributes:
        leave: ends the process at once.
    """

    runtime: Runtime
    seconds: float
    leave: Callable[[int], object] = os._exit
    _asked: threading.Event = field(default_factory=threading.Event)
    _begun: bool = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="drain", daemon=True).start()

    def ask(self) -> None:
        """Begin to stop; to be called from signal handlers too, any number of times."""
        # A second signal may come while the first one's handler is inside ``set``, whose lock would be its own then.
        if not self._begun:
            self._begun = True
            self.runtime.stopping.set()
            self._asked.set()

    def _run(self) -> None:
        self._asked.wait()
        self.runtime.held.interrupt_all(STOPPING)
        time.sleep(self.seconds)
        handing = threading.Thread(target=self.hand_back, name="hand back", daemon=True)
        handing.start()
        handing.join(HAND_BACK_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        self.leave(0)

    def hand_back(self) -> None:
        """Hand back what still runs, in the database alone; what its threads write afterwards is refused there."""
        until = time.monotonic() + HAND_BACK_SECONDS
        for lease in self.runtime.held.all():
            try:
                returned = through_outage(partial(self._give_back, lease.claim), until)
            except DatabaseUnavailable as error:
                self.runtime.log.warning("not handed back, the leases will expire", reason=str(error))
                return
            if returned:
                self.runtime.log.warning("handed back while its call was under way", episode=lease.claim.label)

    def _give_back(self, claim: ClaimedEpisode) -> bool:
        with self.runtime.database.transaction() as conn:
            return episodes.give_back(conn, claim)
