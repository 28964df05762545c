"""Figures with their intervals; where the sample is too small for an interval, they say so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from services.core.statistics.intervals import Interval
from services.core.statistics.resampling import resampled
from services.reports.diagnosis import Figure, missing, shown

FEWEST_CLUSTERS = 4


def of(name: str, interval: Interval, n: int, unit: str, remark: str = "") -> Figure:
    return Figure(name, interval.estimate, interval.low, interval.high, n, unit, remark)


def clustered(
    name: str, estimate: Callable[[NDArray[np.intp]], float], clusters: int, seed: int, unit: str, remark: str = ""
) -> Figure:
    """Return an estimate over clusters with its bootstrap interval, without one when there are too few of them."""
    whole = float(estimate(np.arange(clusters)))
    if not np.isfinite(whole):
        return missing(name, "nothing differs, so there is no ratio")
    if clusters < FEWEST_CLUSTERS:
        why = f"no interval from {clusters} {unit}"
        return Figure(name, whole, None, None, clusters, unit, f"{remark}; {why}" if remark else why)
    return of(name, resampled(estimate, clusters, seed), clusters, unit, remark)


def span(interval: Interval) -> str:
    """Return estimate and interval as one cell."""
    return f"{shown(interval.estimate)} ({shown(interval.low)} to {shown(interval.high)})"
