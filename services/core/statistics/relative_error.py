"""How much of the best single model's error a pool could remove (paper, appendix A.6, equations 13 to 16, 20 to 27)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Accuracies = NDArray[np.float64]  # E(D, M): mean reward of each model on each data set, shape (datasets, models)

MOST_POOLS = 50_000  # so many are tried one by one
DIGITS = 12  # beyond which two reductions count as equal


class Aim(StrEnum):
    """What a pool is chosen for."""

    REDUCTION = "relative error reduction"  # the paper's; a pool without the best model of all may win
    BEST = "mean of the best members"


@dataclass(frozen=True)
class Pool:
    """Models and what they are worth together.

    Attributes:
        members: columns of the accuracies, in order.
        best: Z, the mean over data sets of the best member.
        single: S*, the largest mean over data sets of one member.
    """

    members: tuple[int, ...]
    best: float
    single: float

    @property
    def reduction(self) -> float:
        return reduction(self.best, self.single)

    def value(self, aim: Aim) -> float:
        """Return what is compared, rounded so that equals are equal."""
        return round(self.reduction if aim is Aim.REDUCTION else self.best, DIGITS)


@dataclass(frozen=True)
class Choice:
    """What choices are made by: ``accuracies`` of all models, their ``disagreement`` two by two, and the ``aim``."""

    accuracies: Accuracies
    disagreement: NDArray[np.float64]
    aim: Aim = Aim.REDUCTION


def reduction(best: float, single: float) -> float:
    """Return RER = (Z - S*) / (1 - S*); 0 where the single model makes no error."""
    return (best - single) / (1 - single) if single < 1 else 0.0


def frontier(accuracies: Accuracies, share: float = 0.05) -> tuple[int, ...]:
    """Return the models that come within ``share`` of the best on at least one data set (equation 16)."""
    close = accuracies >= (1 - share) * accuracies.max(axis=1, keepdims=True)
    return tuple(int(model) for model in np.flatnonzero(close.any(axis=0)))


def pool_of(accuracies: Accuracies, members: Sequence[int]) -> Pool:
    own = accuracies[:, sorted(members)]
    return Pool(tuple(sorted(members)), float(own.max(axis=1).mean()), float(own.mean(axis=0).max()))


def choose(by: Choice, models: Sequence[int], sizes: Sequence[int]) -> Pool:
    """Return the best pool for the aim.

    Equal ones are told apart by size, the smaller first, then by the mean disagreement of two members, the larger
    first. All pools are tried while they are few; beyond that the best pair grows by its best addition, and members
    are exchanged as long as that helps.

    Args:
        by: what the choice is made by.
        models: that may be members.
        sizes: of the pools, each at least 2.

    Raises:
        ValueError: a size below 2, or no size that so few models can fill.
    """
    possible = sorted({size for size in sizes if size <= len(models)})
    if not possible or min(sizes) < 2:
        raise ValueError(f"got {len(models)} models for pools of {', '.join(map(str, sizes))}, wanted at least 2")
    if sum(comb(len(models), size) for size in possible) <= MOST_POOLS:
        found = [_best_of(by, combinations_of(models, size)) for size in possible]
    else:
        found = _grown(by, models, possible)
    return max(found, key=lambda pool: (pool.value(by.aim), -len(pool.members)))


def combinations_of(models: Sequence[int], size: int) -> NDArray[np.intp]:
    """Return every pool of that size, shape (pools, size)."""
    return np.array(list(combinations(sorted(models), size)), dtype=np.intp)


def _best_of(by: Choice, pools: NDArray[np.intp]) -> Pool:
    """Return the best of several pools of one size, shape (pools, size)."""
    best = by.accuracies[:, pools].max(axis=2).mean(axis=0)
    single = by.accuracies.mean(axis=0)[pools].max(axis=1)
    reductions = np.where(single < 1, (best - single) / np.where(single < 1, 1 - single, 1.0), 0.0)
    values = (reductions if by.aim is Aim.REDUCTION else best).round(DIGITS)
    equal = pools[values == values.max()]
    diversity = by.disagreement[equal[:, :, None], equal[:, None, :]].mean(axis=(1, 2))
    return pool_of(by.accuracies, equal[diversity.argmax()].tolist())


def _grown(by: Choice, models: Sequence[int], sizes: Sequence[int]) -> list[Pool]:
    pool = _best_of(by, combinations_of(models, 2))
    found = {2: pool}
    for size in range(3, max(sizes) + 1):
        outside = [model for model in models if model not in pool.members]
        grown = np.array([sorted((*pool.members, model)) for model in outside], dtype=np.intp)
        pool = _exchanged(by, models, _best_of(by, grown))
        found[size] = pool
    return [found[size] for size in sizes]


def _exchanged(by: Choice, models: Sequence[int], pool: Pool) -> Pool:
    while True:
        kept = [[member for member in pool.members if member != gone] for gone in pool.members]
        outside = [model for model in models if model not in pool.members]
        swapped = [sorted((*rest, model)) for rest in kept for model in outside]
        if not swapped:
            return pool
        better = _best_of(by, np.array(swapped, dtype=np.intp))
        if better.value(by.aim) <= pool.value(by.aim):
            return pool
        pool = better
