"""What is worth its price: the choices that no other one beats in both quality and cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite


def pareto_front(costs: Sequence[float], values: Sequence[float]) -> tuple[int, ...]:
    """Return the places of the choices that are not dominated, by rising cost.

    A choice is dominated when another one costs no more and is worth no less, and is better in one of the two. Of
    choices that are equal in both, all are on the front.

    Args:
        costs: less is better.
        values: more is better.

    Raises:
        ValueError: different lengths, or a number that is not finite.
    """
    if len(costs) != len(values) or not all(map(isfinite, (*costs, *values))):
        raise ValueError(f"wanted as many finite costs as values, got {len(costs)} and {len(values)}")
    order = sorted(range(len(costs)), key=lambda at: (costs[at], -values[at]))
    front: list[int] = []
    for at in order:
        if not front or values[at] > values[front[-1]] or (costs[at], values[at]) == _point(front[-1], costs, values):
            front.append(at)
    return tuple(front)


def _point(at: int, costs: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    return costs[at], values[at]
