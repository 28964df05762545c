"""Which problem belongs to which split. No problem is in two."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from services.benchmarks.jsonl import Line, shown
from services.core import seeds
from services.core.errors import SpecError
from services.core.problem import Problem, Split
from services.core.problem_source import FieldSplit, SeededSplit

# Dealt in this order: held-out problems stay the same when the other splits are resized.
DEALING_ORDER = (Split.HELDOUT, Split.VALIDATION, Split.TRAINING)


def by_field(split: FieldSplit, found: Sequence[tuple[Line, Problem]]) -> dict[Split, list[Problem]]:
    """Deal by what each line says, in file order.

    Raises:
        SpecError: a line without the field, or with a value that the mapping does not name.
    """
    dealt: dict[Split, list[Problem]] = {one: [] for one in Split}
    for line, problem in found:
        value = line.field(split.field)
        if not isinstance(value, str) or value not in split.values:
            wanted = f"one of {', '.join(split.values)} in the field {split.field}"
            raise SpecError(line.place, shown(value), wanted)
        dealt[split.values[value]].append(problem)
    return dealt


def by_seed(split: SeededSplit, problems: Sequence[Problem]) -> dict[Split, list[Problem]]:
    """Deal by seed, every family in proportion to its size.

    Each family is shuffled by itself; the families are then merged evenly, so that any stretch of the merged row holds
    them in proportion, and the splits are consecutive stretches of it. The order of the files does not matter.

    Raises:
        SpecError: the splits want more problems than there are, or a split that should have problems gets none.
    """
    sizes = _sizes(split, len(problems))
    row = _evenly_merged(split.seed, problems)
    dealt: dict[Split, list[Problem]] = {}
    start = 0
    for name in DEALING_ORDER:
        dealt[name] = row[start : start + sizes[name]]
        start += sizes[name]
    return dealt


def _sizes(split: SeededSplit, available: int) -> Mapping[Split, int]:
    asked = {Split.TRAINING: split.training, Split.VALIDATION: split.validation, Split.HELDOUT: split.heldout}
    sizes = {name: math.floor(size * available) if isinstance(size, float) else size for name, size in asked.items()}
    if sum(sizes.values()) > available:
        text = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise SpecError("problems.split", text, f"together at most the {available} problems of the files")
    for name, size in asked.items():
        if sizes[name] == 0 and (size or name is Split.TRAINING):
            raise SpecError(f"problems.split.{name}", size, f"at least one of the {available} problems of the files")
    return sizes


def _evenly_merged(seed: int, problems: Sequence[Problem]) -> list[Problem]:
    families: dict[str, list[Problem]] = defaultdict(list)
    for problem in sorted(problems, key=lambda one: one.key):
        families[problem.family].append(problem)
    placed = []
    for family, members in sorted(families.items()):
        order = seeds.generator(seed, "split", family).permutation(len(members))
        # The k-th of m members stands at (k + 1/2) / m of the row, whatever the other families do.
        placed += [((rank + 0.5) / len(members), family, members[index]) for rank, index in enumerate(order)]
    placed.sort(key=lambda one: one[:2])
    return [problem for _, _, problem in placed]
