"""Choosing on one part of the data and scoring on another, so that no choice is judged by what chose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics.intervals import Interval

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
# From the questions that may be looked at, shape (questions,), to the model for every question, shape (questions,).
Rule = Callable[[Mask], NDArray[np.intp]]

RIDGES = 10.0 ** np.arange(-4, 5)  # penalties tried, relative to the mean squared singular value
_CHUNK = 4_000_000  # counts of resampled questions held at once


def halves(groups: NDArray[np.intp], seed: int, splits: int) -> Mask:
    """Return random halves, each followed by its complement, with an equal share of every family.

    Args:
        groups: each question's family, shape (questions,).
        seed: of the draws.
        splits: how many.

    Returns:
        shape (2 x splits, questions), true where a choice may look.
    """
    rng = seeds.generator(seed, "halves")
    found = np.zeros((2 * splits, len(groups)), dtype=np.bool_)
    for split in range(splits):
        for group in np.unique(groups):
            order = rng.permutation(np.flatnonzero(groups == group))
            # Of an odd number the odd one falls to either side.
            found[2 * split, order[: (len(order) + int(rng.integers(2))) // 2]] = True
        found[2 * split + 1] = ~found[2 * split]
    return found


def cross_fitted(rule: Rule, means: Values, looks: Mask) -> Values:
    """Return each question's reward under choices that did not look at it, averaged over splits.

    Args:
        rule: makes the choices.
        means: rewards, shape (questions, models).
        looks: of ``halves``.
    """
    total = np.zeros(len(means))
    for look in looks:
        scored = ~look
        total[scored] += means[scored, rule(look)[scored]]
    found: Values = total / (len(looks) / 2)
    return found


def in_sample(rule: Rule, means: Values) -> Values:
    """Return each question's reward under choices that looked at all of them, shape (questions,)."""
    found: Values = means[np.arange(len(means)), rule(np.ones(len(means), dtype=np.bool_))]
    return found


def best_single(means: Values, weights: Values) -> Rule:
    """Return the rule that takes the model with the best mean everywhere."""

    def rule(look: Mask) -> NDArray[np.intp]:
        return np.full(len(means), ((weights * look) @ means).argmax(), dtype=np.intp)

    return rule


def best_of_family(means: Values, weights: Values, groups: NDArray[np.intp]) -> Rule:
    """Return the rule that takes each family's best model, the best single one where a family was not looked at."""
    alone = best_single(means, weights)

    def rule(look: Mask) -> NDArray[np.intp]:
        picks = alone(look)
        for group in np.unique(groups[look]):
            own = groups == group
            picks[own] = means[own & look].mean(axis=0).argmax()
        return picks

    return rule


def ridge_router(means: Values, states: Values) -> Rule:
    """Return the rule that predicts every model's reward from the state and takes the largest.

    Ridge regression (Hoerl & Kennard 1970), its penalty chosen by generalised cross-validation (Golub, Heath & Wahba
    1979) on the questions that may be looked at.

    Args:
        means: rewards, shape (questions, models).
        states: shape (questions, d).
    """

    def rule(look: Mask) -> NDArray[np.intp]:
        centre, level = states[look].mean(axis=0), means[look].mean(axis=0)
        left, sizes, right = np.linalg.svd(states[look] - centre, full_matrices=False)
        projected = left.T @ (means[look] - level)
        shrinks = [sizes**2 / (sizes**2 + ridge * (sizes**2).mean() + 1e-300) for ridge in RIDGES]
        chosen = min(shrinks, key=lambda shrink: _validation(shrink, left, projected, means[look] - level))
        inverse = chosen / np.where(sizes > 0, sizes, np.inf)
        predicted = level + (states - centre) @ (right.T @ (inverse[:, None] * projected))
        picks: NDArray[np.intp] = predicted.argmax(axis=1)
        return picks

    return rule


def _validation(shrink: Values, left: Values, projected: Values, wanted: Values) -> float:
    left_over = wanted - left @ (shrink[:, None] * projected)
    freedom = len(wanted) - 1 - float(shrink.sum())
    return float((left_over**2).sum()) / max(freedom, 1e-9) ** 2


def routed_by_answers(rewards: NDArray[np.float64], groups: NDArray[np.intp]) -> Values:
    """Return each question's reward when all answers but one pick its model and that one is scored, shape (questions,).

    Every answer is left out once. Models whose other answers are equally good are told apart by their families' means,
    of the other answers too. The picks know rewards but not the ones they are scored by: what comes out is at most what
    a router could reach that knows every model's expected reward on each question, and less, the fewer the answers.

    Args:
        rewards: shape (questions, models, repeats), at least two repeats.
        groups: each question's family.

    Raises:
        ValueError: one answer only.
    """
    questions, _, repeats = rewards.shape
    if repeats < 2:
        raise ValueError("wanted at least two answers of each model to each question")
    total = np.zeros(questions)
    for repeat in range(repeats):
        seen = np.delete(rewards, repeat, axis=2).mean(axis=2)
        usual = np.array([seen[groups == group].mean(axis=0) for group in range(int(groups.max()) + 1)])
        ties = np.where(seen >= seen.max(axis=1, keepdims=True) - 1e-9, usual[groups], -1.0)
        total += rewards[np.arange(questions), ties.argmax(axis=1), repeat]
    found: Values = total / repeats
    return found


def resampled_means(
    values: Sequence[Values], weights: Values, groups: NDArray[np.intp] | None, seed: int, resamples: int = 2000
) -> NDArray[np.float64]:
    """Return weighted means over resampled questions, the same questions for all figures, shape (resamples, figures).

    Args:
        values: of each figure, shape (questions,).
        weights: of the questions, adding up to 1.
        groups: strata within which questions are drawn; None draws from all alike.
        seed: of the draws.
        resamples: how many.
    """
    rng = seeds.generator(seed, "questions")
    weighted = np.stack(values, axis=1) * weights[:, None]
    strata = np.zeros(len(weights), dtype=np.intp) if groups is None else groups
    found = np.zeros((resamples, len(values)))
    for stratum in np.unique(strata):
        own = weighted[strata == stratum]
        rows = max(1, _CHUNK // len(own))
        for start in range(0, resamples, rows):
            size = min(rows, resamples - start)
            found[start : start + size] += rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size) @ own
    return found


def interval_of(estimate: float, draws: Values) -> Interval:
    """Return an estimate with the 95 % percentile interval of its resampled values, widened to hold it."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(estimate, min(estimate, float(low)), max(estimate, float(high)))
