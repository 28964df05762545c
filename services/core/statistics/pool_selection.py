"""Choosing a pool by relative error reduction, and judging the choice on data that did not make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.statistics.cross_fitting import Values, halves, interval_of, resampled_means
from services.core.statistics.intervals import Interval
from services.core.statistics.outcome_table import OutcomeTable
from services.core.statistics.relative_error import Accuracies, Aim, Choice, Pool, choose, frontier, reduction

SPLITS = 20


@dataclass(frozen=True)
class Held:
    """What chosen pools are worth on the halves that did not choose them, families counting alike.

    Attributes:
        best: mean reward with each family's best member, also chosen on the other half.
        single: mean reward of the member with the best mean.
        overall: mean reward of the best of all models, members or not.
        gain: ``best`` minus ``overall``: what the pool gives to somebody who could take that model instead.
        reduction: of the error of ``single``.
    """

    best: Interval
    single: Interval
    overall: Interval
    gain: Interval
    reduction: Interval


@dataclass(frozen=True)
class Selection:
    """A chosen pool.

    Attributes:
        aim: what it was chosen for.
        members: names.
        families: each family's best member, on all data.
        flattering: the pool's figures on the data that chose it.
        held: cross-fitted figures of the procedure.
        frontier: models that were looked at.
        same: share of the halves that chose this very pool.
        often: in what share of the halves each model was chosen, for those that were.
        questions: n.
        sizes: of families.
    """

    aim: Aim
    members: tuple[str, ...]
    families: dict[str, str]
    flattering: Pool
    held: Held
    frontier: tuple[str, ...]
    same: float
    often: dict[str, float]
    questions: int
    sizes: dict[str, int]


def select(
    table: OutcomeTable, sizes: Sequence[int], *, seed: int, share: float = 0.05, aim: Aim = Aim.REDUCTION
) -> Selection:
    """Return the best pool; families are the paper's data sets.

    Args:
        table: rewards of all models that may be members.
        sizes: of pools to consider.
        seed: of splits and resampling.
        share: how close to the best on some family a model has to come.
        aim: what makes a pool the best.

    Raises:
        ValueError: one family only, or fewer models on the frontier than the smallest size.
    """
    if len(table.names) < 2:
        raise ValueError(f"got the family {table.names[0]} alone, wanted two: a pool is chosen by what differs between")
    accuracies = _accuracies(table, np.ones(table.questions, dtype=np.bool_))
    near = frontier(accuracies, share)
    pool = choose(Choice(accuracies, table.disagreement(), aim), near, sizes)
    looks = halves(table.groups, seed, SPLITS)
    chosen = [_chosen(table, look, sizes, share, aim) for look in looks]
    counted = Counter(model for each in chosen for model in each.members)
    best_members = np.array(pool.members)[accuracies[:, list(pool.members)].argmax(axis=1)]
    return Selection(
        aim=aim,
        members=tuple(table.models[model] for model in pool.members),
        families={name: table.models[model] for name, model in zip(table.names, best_members, strict=True)},
        flattering=pool,
        held=_held(table, looks, chosen, seed),
        frontier=tuple(table.models[model] for model in near),
        same=sum(each.members == pool.members for each in chosen) / len(chosen),
        often={table.models[model]: count / len(chosen) for model, count in counted.most_common()},
        questions=table.questions,
        sizes={name: table.families.count(name) for name in table.names},
    )


def _accuracies(table: OutcomeTable, look: NDArray[np.bool_]) -> Accuracies:
    means, groups = table.means, table.groups
    return np.array([means[look & (groups == group)].mean(axis=0) for group in range(len(table.names))])


def _chosen(table: OutcomeTable, look: NDArray[np.bool_], sizes: Sequence[int], share: float, aim: Aim) -> Pool:
    seen = OutcomeTable(table.models, tuple(np.array(table.families)[look].tolist()), table.rewards[look])
    accuracies = _accuracies(table, look)
    near = frontier(accuracies, share)
    if len(near) < min(sizes):  # half the data put fewer models near the best: take those that come next
        order = np.argsort(-accuracies.max(axis=0), kind="stable")
        near = tuple(dict.fromkeys([*near, *order.tolist()]))[: min(sizes)]
    return choose(Choice(accuracies, seen.disagreement(), aim), near, sizes)


def _held(table: OutcomeTable, looks: NDArray[np.bool_], chosen: Sequence[Pool], seed: int) -> Held:
    best, single, overall = (np.zeros(table.questions) for _ in range(3))
    for look, pool in zip(looks, chosen, strict=True):
        accuracies, scored = _accuracies(table, look), ~look
        members = np.array(pool.members)
        of_family = members[accuracies[:, members].argmax(axis=1)]
        best[scored] += table.means[scored, of_family[table.groups[scored]]]
        single[scored] += table.means[scored, members[accuracies[:, members].mean(axis=0).argmax()]]
        overall[scored] += table.means[scored, accuracies.mean(axis=0).argmax()]
    times = len(looks) / 2
    return _intervals(table, [best / times, single / times, overall / times], seed)


def _intervals(table: OutcomeTable, values: Sequence[Values], seed: int) -> Held:
    weights = table.weights(by_family=True)
    best, single, overall = (float(weights @ each) for each in values)
    draws = resampled_means(values, weights, table.groups, seed)
    reductions = np.array([reduction(*row) for row in draws[:, :2].tolist()])
    return Held(
        best=interval_of(best, draws[:, 0]),
        single=interval_of(single, draws[:, 1]),
        overall=interval_of(overall, draws[:, 2]),
        gain=interval_of(best - overall, draws[:, 0] - draws[:, 2]),
        reduction=interval_of(reduction(best, single), reductions),
    )
