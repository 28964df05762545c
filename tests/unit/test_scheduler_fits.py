"""What is fitted to labels: read once and fitted once, however often somebody asks meanwhile."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np
import pytest

from scheduler.fits import Fits, StillComputing, Vector
from services.core.ids import CampaignId

ONE = CampaignId(1)


def test_labels_are_read_once_while_a_fit_is_under_way() -> None:
    reads: list[int] = []
    done = threading.Event()

    def prepared() -> Callable[[], Vector]:
        reads.append(1)
        return lambda: np.ones(2) if done.wait(30) else np.zeros(2)

    fits = Fits(patience_seconds=0.0)
    for _ in range(3):
        with pytest.raises(StillComputing):
            fits.of(ONE, "start", prepared)
    done.set()
    while fits.warm(30):
        pass
    assert fits.of(ONE, "start", prepared).tolist() == [1.0, 1.0]
    assert len(reads) == 1
    fits.forget(ONE)
    Fits(math.inf).of(ONE, "start", prepared)
    assert len(reads) == 2


def test_a_fit_that_failed_is_begun_again() -> None:
    outcomes = [ValueError("too few"), None]

    def prepared() -> Callable[[], Vector]:
        error = outcomes.pop(0)

        def fit() -> Vector:
            if error is not None:
                raise error
            return np.ones(1)

        return fit

    fits = Fits(math.inf)
    with pytest.raises(ValueError, match="too few"):
        fits.of(ONE, 0, prepared)
    assert fits.of(ONE, 0, prepared).tolist() == [1.0]
