"""What is fitted to labels, each in a thread of its own, so that the leader shows its signs of life meanwhile."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait

import numpy as np
import numpy.typing as npt

from services.core.ids import CampaignId

Vector = npt.NDArray[np.float64]
Name = int | str


class StillComputing(Exception):
    """What is needed is not there yet: go on with something else and ask again."""


class Fits:
    """A cache, never the truth: a fit depends on the stored labels and the campaign's seed alone.

    Args:
        patience_seconds: longest time that ``of`` waits.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._fits: dict[tuple[CampaignId, Name], Future[Vector]] = {}

    def of(self, campaign_id: CampaignId, name: Name, prepared: Callable[[], Callable[[], Vector]]) -> Vector:
        """Return what a fit returns, which is called once.

        Args:
            campaign_id: whose.
            name: of the fit.
            prepared: reads what it takes, and is called for a fit that nobody has begun; what it returns, the fit,
                must not touch the database.

        Raises:
            StillComputing: it takes longer; the caller undoes its transaction.
        """
        key = (campaign_id, name)
        if key not in self._fits:
            self._fits[key] = begun(prepared())
        future = self._fits[key]
        if not wait([future], self._patience_seconds if math.isfinite(self._patience_seconds) else None).done:
            raise StillComputing
        if future.exception() is not None:
            del self._fits[key]
        return future.result()

    def warm(self, seconds: float) -> bool:
        """Wait for some time while anything is being fitted; return whether something still is."""
        running = [future for future in self._fits.values() if not future.done()]
        return bool(wait(running, seconds, FIRST_COMPLETED).not_done) if running else False

    def forget(self, campaign_id: CampaignId) -> None:
        for key in [key for key in self._fits if key[0] == campaign_id]:
            del self._fits[key]


def begun(fit: Callable[[], Vector]) -> Future[Vector]:
    """Return the future of a call in a thread that ends with the process."""
    future: Future[Vector] = Future()

    def run() -> None:
        try:
            future.set_result(fit())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever asked
            future.set_exception(error)

    threading.Thread(target=run, name="fit", daemon=True).start()
    return future
