"""What routing could gain on a pool at all, told apart from luck, before anything is spent on training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from services.core.statistics.cross_fitting import (
    Rule,
    Values,
    best_of_family,
    best_single,
    cross_fitted,
    halves,
    in_sample,
    interval_of,
    resampled_means,
    ridge_router,
    routed_by_answers,
)
from services.core.statistics.intervals import Interval
from services.core.statistics.outcome_table import OutcomeTable
from services.core.statistics.verdict import Gain, Verdict, judged

SPLITS = 20
ROUTER_SPLITS = 5  # each takes two singular value decompositions of the states


class Way(StrEnum):
    """Ways to choose a model for a question."""

    RANDOM = "random model"
    SINGLE = "best single model"
    FAMILY = "best model per family"
    ROUTER = "ridge regression on states"
    ANSWERS = "routing oracle, cross-fitted"
    UNION = "clairvoyant union"


# What is known of a question is its family, its state or other answers to it, never the answer that is scored.
HONEST = (Way.FAMILY, Way.ROUTER, Way.ANSWERS)


@dataclass(frozen=True)
class Line:
    """One way to choose.

    Attributes:
        in_sample: mean reward when chosen and scored on the same data, which flatters; None where that says nothing.
        value: mean reward when scored on what did not choose; the union is scored on what chose it.
        gain: over the cross-fitted best single model, on the same questions; None for that itself.
    """

    way: Way
    in_sample: float | None
    value: Interval
    gain: Interval | None


@dataclass(frozen=True)
class ModelLine:
    """One model of the pool.

    Attributes:
        mean: its reward on its own.
        alone: questions that it solves and no other model does.
        union_loss: what the union loses without it; optimistic as the union is.
        loss: what the best cross-fitted way loses without it; None where no way was cross-fitted.
    """

    model: str
    mean: Interval
    alone: int
    union_loss: float
    loss: Interval | None


@dataclass(frozen=True)
class Headroom:
    """The analysis of one pool.

    Attributes:
        questions: n of every figure.
        repeats: answers of each model to each question.
        families: questions of each.
        by_family: whether families count alike, however many questions they have.
        lines: ways to choose.
        marginal: the way that ``ModelLine.loss`` is about.
        models: of the pool.
        disagreement: for each two models the share of answers worth something else, shape (models, models).
        threshold: gain that is worth training for.
        verdict: what follows.
    """

    questions: int
    repeats: int
    families: Mapping[str, int]
    by_family: bool
    lines: tuple[Line, ...]
    marginal: Way | None
    models: tuple[ModelLine, ...]
    disagreement: tuple[tuple[float, ...], ...]
    threshold: float
    verdict: Verdict

    def line(self, way: Way) -> Line | None:
        return next((line for line in self.lines if line.way is way), None)


def headroom(table: OutcomeTable, *, seed: int, threshold: float = 0.02, by_family: bool = False) -> Headroom:
    """Return what routing could gain over the best single model.

    Args:
        table: rewards, with states where a learnable router is to be tried.
        seed: of splits and resampling.
        threshold: gain in mean reward below which training is not worth it.
        by_family: whether families count alike instead of questions.

    Raises:
        ValueError: fewer than two models.
    """
    if len(table.models) < 2:
        raise ValueError(f"got the model {', '.join(table.models)} alone, wanted at least two to choose from")
    weights, strata = table.weights(by_family=by_family), table.groups if by_family else None
    ways = _values(table, weights, seed)
    flattering = {way: float(weights @ in_sample(rule, table.means)) for way, rule in _rules(table, weights).items()}
    gains = {way: values - ways[Way.SINGLE] for way, values in ways.items()}
    draws = resampled_means([*ways.values(), *gains.values()], weights, strata, seed)
    value = {way: interval_of(float(weights @ ways[way]), draws[:, at]) for at, way in enumerate(ways)}
    gain = {way: interval_of(float(weights @ gains[way]), draws[:, len(ways) + at]) for at, way in enumerate(ways)}
    lines = [Line(way, flattering.get(way), value[way], None if way is Way.SINGLE else gain[way]) for way in ways]
    marginal = max((way for way in HONEST if way in ways), key=lambda way: gain[way].estimate, default=None)
    return Headroom(
        questions=table.questions,
        repeats=table.repeats,
        families={name: table.families.count(name) for name in table.names},
        by_family=by_family,
        lines=tuple(lines),
        marginal=marginal,
        models=_models(table, weights, strata, marginal, ways, seed),
        disagreement=tuple(tuple(row) for row in table.disagreement().tolist()),
        threshold=threshold,
        verdict=judged(
            [Gain(way.value, gain[way]) for way in HONEST if way in gain],
            Gain(Way.UNION.value, gain[Way.UNION]),
            threshold,
            table.questions,
            repeated=table.repeats > 1,
        ),
    )


def _rules(table: OutcomeTable, weights: Values) -> dict[Way, Rule]:
    rules = {Way.SINGLE: best_single(table.means, weights)}
    if len(table.names) > 1:
        rules[Way.FAMILY] = best_of_family(table.means, weights, table.groups)
    if table.states is not None:
        rules[Way.ROUTER] = ridge_router(table.means, table.states)
    return rules


def _values(table: OutcomeTable, weights: Values, seed: int) -> dict[Way, Values]:
    """Return each question's reward under every way that the data allow."""
    looks = halves(table.groups, seed, SPLITS)
    found = {Way.RANDOM: table.means.mean(axis=1)}
    for way, rule in _rules(table, weights).items():
        found[way] = cross_fitted(rule, table.means, looks[: 2 * ROUTER_SPLITS] if way is Way.ROUTER else looks)
    if table.repeats > 1:
        found[Way.ANSWERS] = routed_by_answers(table.rewards, table.groups)
    return found | {Way.UNION: _union(table)}


def _union(table: OutcomeTable) -> Values:
    found: Values = table.rewards.max(axis=1).mean(axis=1)
    return found


def _one(way: Way, table: OutcomeTable, weights: Values, looks: NDArray[np.bool_]) -> Values:
    if way is Way.ANSWERS:
        return routed_by_answers(table.rewards, table.groups)
    return cross_fitted(_rules(table, weights)[way], table.means, looks)


def _models(
    table: OutcomeTable,
    weights: Values,
    strata: NDArray[np.intp] | None,
    marginal: Way | None,
    ways: Mapping[Way, Values],
    seed: int,
) -> tuple[ModelLine, ...]:
    looks = halves(table.groups, seed, ROUTER_SPLITS if marginal is Way.ROUTER else SPLITS)
    numbers: Sequence[int] = range(len(table.models))
    rest = [table.without(model) for model in numbers]
    losses = [] if marginal is None else [ways[marginal] - _one(marginal, each, weights, looks) for each in rest]
    singles = [table.means[:, model] for model in numbers]
    draws = resampled_means([*singles, *losses], weights, strata, seed)
    intervals = [interval_of(float(weights @ values), draws[:, at]) for at, values in enumerate([*singles, *losses])]
    alone = table.alone()
    return tuple(
        ModelLine(
            name,
            intervals[at],
            int(alone[at]),
            float(weights @ (ways[Way.UNION] - _union(rest[at]))),
            intervals[len(numbers) + at] if losses else None,
        )
        for at, name in enumerate(table.models)
    )
