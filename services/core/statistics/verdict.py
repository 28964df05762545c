"""Whether a pool is worth training a coordinator for, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.core.statistics.intervals import Interval


class Finding(StrEnum):
    POOL_BOUND = "pool-bound"
    WORTH_TRAINING = "worth training"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Gain:
    """What a way to choose gains over the best single model."""

    way: str
    interval: Interval


@dataclass(frozen=True)
class Verdict:
    """What the gains say; ``needed`` is about how many questions would tell, where more questions would."""

    finding: Finding
    reason: str
    needed: int | None = None


def judged(honest: Sequence[Gain], union: Gain, threshold: float, questions: int, *, repeated: bool) -> Verdict:
    """Return the verdict.

    A pool is bound when the upper end of everything that could be gained is below the threshold. Where each model
    answered once only, nobody can tell skill on a question from luck, and only the union bounds the gain from above.

    Args:
        honest: cross-fitted gains.
        union: of the union, which is optimistic.
        threshold: gain that is worth training for.
        questions: n behind the intervals.
        repeated: whether models answered more than once.
    """
    bounding = max(honest, key=lambda gain: gain.interval.high) if repeated and honest else union
    if bounding.interval.high < threshold:
        reason = f"{bounding.way} gains {_span(bounding.interval)} over the best single model, all below {threshold:g}"
        return Verdict(Finding.POOL_BOUND, reason)
    showing = max(honest, key=lambda gain: gain.interval.low, default=None)
    if showing is not None and showing.interval.low > threshold:
        reason = f"{showing.way} gains {_span(showing.interval)} over the best single model, all above {threshold:g}"
        return Verdict(Finding.WORTH_TRAINING, reason)
    if showing is None:
        reason = (
            f"each model answered once, to one family of questions: {union.way} gains {_span(union.interval)}, luck "
            "included; let the models answer twice at least, or name families, to learn more"
        )
        return Verdict(Finding.INCONCLUSIVE, reason)
    return _inconclusive(max(honest, key=lambda gain: gain.interval.estimate), union, threshold, questions, repeated)


def _inconclusive(gain: Gain, union: Gain, threshold: float, questions: int, repeated: bool) -> Verdict:
    interval = gain.interval
    half = (interval.high - interval.low) / 2
    wanted = max(abs(interval.estimate - threshold), threshold / 4)
    needed = math.ceil(questions * (half / wanted) ** 2 - 1e-6) if wanted > 0 else questions
    said = f"{gain.way} gains {_span(interval)} over the best single model"
    if not repeated and interval.high < threshold:
        reason = (
            f"{said}, and {union.way} {_span(union.interval)}, luck included; two answers of each model to a question "
            "would tell luck from skill"
        )
        return Verdict(Finding.INCONCLUSIVE, reason)
    reason = f"{said}; {needed:,} questions are needed for +-{wanted:.3f}"
    return Verdict(Finding.INCONCLUSIVE, reason, needed)


def _span(interval: Interval) -> str:
    return f"{interval.estimate:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"
