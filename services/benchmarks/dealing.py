"""Which problem of a benchmark belongs to which split, by the rules of the paper's authors."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from services.benchmarks.record import Dealt
from services.core.problem import Problem, Split

Parts = Mapping[str, Sequence[Problem]]
Thing = TypeVar("Thing")

SEED = 42
# Shares of a benchmark that comes in one piece: the shuffled row is held out first, then used for validation.
HELDOUT = 0.2
VALIDATION = 0.2


def shuffled(things: Sequence[Thing]) -> list[Thing]:
    """Return the things in the order that the authors' seed gives rows of that number."""
    order = list(things)
    random.Random(SEED).shuffle(order)  # noqa: S311 - the authors' generator: another one would give other splits
    return order


def by_ratio(problems: Sequence[Problem]) -> Dealt:
    """Shuffle; the first fifth is held out, the next validates, the rest trains."""
    row = shuffled(problems)
    first = int(len(row) * HELDOUT)
    second = first + int(len(row) * VALIDATION)
    return {Split.HELDOUT: row[:first], Split.VALIDATION: row[first:second], Split.TRAINING: row[second:]}


def one_piece(parts: Parts) -> Dealt:
    """Deal a benchmark of one part by ratio."""
    (problems,) = parts.values()
    return by_ratio(problems)


def held_out(parts: Parts) -> Dealt:
    """Hold everything out, in the order of the files."""
    return {Split.HELDOUT: [problem for part in parts.values() for problem in part]}
