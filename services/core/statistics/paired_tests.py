"""Tests of paired outcomes, and what is left of their p-values when there are many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True)
class Discordance:
    """On how many problems the one did better than the other, worse, and equally well."""

    wins: int
    losses: int
    ties: int

    @property
    def p(self) -> float:
        """Return the p-value of ``mcnemar``."""
        return mcnemar(self.wins, self.losses)


def discordance(a: Sequence[float], b: Sequence[float]) -> Discordance:
    """Return how often ``a[i]`` is more or less than ``b[i]``, both of one problem.

    Raises:
        ValueError: different lengths, no values, or one that is not finite.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"wanted values of the same problems, at least one, got {len(a)} and {len(b)}")
    if not all(map(isfinite, (*a, *b))):
        raise ValueError("wanted finite numbers")
    wins = sum(one > other for one, other in zip(a, b, strict=True))
    losses = sum(one < other for one, other in zip(a, b, strict=True))
    return Discordance(wins, losses, len(a) - wins - losses)


def mcnemar(wins: int, losses: int) -> float:
    """Return the two-sided p-value of McNemar's test (1947) in its exact form.

    Under the hypothesis of no difference each discordant problem is a win or a loss with equal chance, so that the wins
    are binomial with probability 1/2; the p-value is twice the smaller tail, at most 1. It is exact at every count, so
    that no normal approximation is needed for few discordant problems and none is used for many. With one repeat and
    rewards of 0 and 1 this is McNemar's test; of mean rewards over repeats it is the sign test over problems, which
    does not take repeats of one problem for independent evidence.

    Raises:
        ValueError: a negative count.
    """
    if min(wins, losses) < 0:
        raise ValueError(f"got {wins} wins and {losses} losses, wanted counts")
    trials = wins + losses
    ways = tail = 1  # of 0 wins, then of 1, 2, ...: binomial coefficients
    for count in range(1, min(wins, losses) + 1):
        ways = ways * (trials - count + 1) // count
        tail += ways
    return min(1.0, 2 * tail / (1 << trials))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted for their number (Holm 1979), in the order given.

    All differences whose adjusted value is below a level hold together at that level, whatever depends on what.

    Raises:
        ValueError: a value outside 0 to 1.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"wanted p-values from 0 to 1, got {list(p_values)}")
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[at]))
        adjusted[at] = highest
    return tuple(adjusted)
