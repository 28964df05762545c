"""Sharing the places in flight among campaigns: by weight, with nothing left idle and nobody left out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Load:
    """What a campaign has under way and what it could start now.

    Attributes:
        weight: its share relative to the others', above 0.
        in_flight: episodes at the broker or running.
        ready: episodes that may be sent now.
    """

    weight: float
    in_flight: int
    ready: int

    @property
    def demand(self) -> int:
        return self.in_flight + self.ready


def allotments(window: int, loads: Mapping[Key, Load]) -> dict[Key, int]:
    """Return how many episodes each campaign may send now.

    Each campaign has a share of the window (``shares``) and fills it up. While others still drain what they have above
    their shares, the sum in flight may pass the window for a while: a campaign that comes late does not wait for them.
    """
    share = shares(window, loads)
    return {key: max(0, min(load.ready, share[key] - load.in_flight)) for key, load in loads.items()}


def shares(window: int, loads: Mapping[Key, Load]) -> dict[Key, int]:
    """Divide the window by weight among the campaigns, nobody getting more than it has use for.

    What one cannot use goes to the others, so that the shares fill the window whenever there is enough to do. Everybody
    with something to do gets at least 1, were the window smaller than their number. Rounding moves a share by less
    than 1; ties go to who comes first.
    """
    open_ = [key for key, load in loads.items() if load.demand > 0]
    whole = dict.fromkeys(loads, 0) | dict.fromkeys(open_, 1)
    level = water_level(window, [loads[key] for key in open_])
    exact = {key: filled(loads[key], level) for key in open_}
    whole |= {key: math.floor(amount) for key, amount in exact.items()}
    left = min(window, sum(loads[key].demand for key in open_)) - sum(whole.values())
    rests = sorted(open_, key=lambda key: whole[key] - exact[key])
    for key in [key for key in rests if whole[key] < loads[key].demand][: max(0, left)]:
        whole[key] += 1
    return whole


def water_level(window: int, loads: Sequence[Load]) -> float:
    """Return the level at which shares of ``filled`` add up to the window; infinite when the window holds all."""
    if sum(load.demand for load in loads) <= window:
        return math.inf
    points = sorted({bound / load.weight for load in loads for bound in (1, load.demand)})
    below = 0.0
    for point in points:
        if sum(filled(load, point) for load in loads) >= window:
            break
        below = point
    rising = sum(load.weight for load in loads if 1 / load.weight <= below < load.demand / load.weight)
    if not rising:
        return below
    return below + max(0.0, window - sum(filled(load, below) for load in loads)) / rising


def filled(load: Load, level: float) -> float:
    """Return a campaign's share at a level: in proportion to its weight, at least 1, at most what it can use."""
    return float(load.demand) if math.isinf(level) else max(1.0, min(float(load.demand), level * load.weight))


def interleaved(counts: Mapping[Key, int]) -> list[Key]:
    """Spread every campaign's messages evenly over a sequence, so that nobody's stand in a block."""
    places = [
        (place / count, count, order, key)
        for order, (key, count) in enumerate(counts.items())
        for place in range(count)
    ]
    return [key for *_, key in sorted(places, key=lambda entry: entry[:3])]
