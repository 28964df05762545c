"""What a policy takes per question: money, tokens, calls, seconds, turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from services.core.seeds import derive
from services.core.statistics.intervals import Interval, mean_interval
from services.core.statistics.resampling import ratio
from services.reports.policies import Policy
from services.reports.records import Effort


@dataclass(frozen=True)
class Costs:
    """What one policy took in its scored held-out episodes; None where a figure is not known.

    Means are over problems, each the mean of its repeats, as for rewards. What is compared counts kept replies at
    their list price and with the time that they once took; only ``paid`` does not.

    Attributes:
        paid: USD that was spent on all these episodes.
        usd: per question, with its 95 % interval over problems.
        usd_per_correct: USD for each unit of reward, which is a correct answer where rewards are 0 and 1; None without
            any reward.
        tokens_in, tokens_out, calls, turns: per question.
        hits, errors, estimated: calls of all episodes that kept replies answered, that failed, that nobody counted.
        latency_p50, latency_p95: quantiles over episodes of the seconds that their calls took together.
        stops, outcomes: episodes by why they ended and by why their reward was what it was.
        drawn: share of the turns whose action was drawn, because a prompted coordinator named none that is possible.
    """

    episodes: int
    paid: Decimal
    usd: Interval | None
    usd_per_correct: Interval | None
    tokens_in: float | None
    tokens_out: float | None
    calls: float
    turns: float
    hits: int
    errors: int
    estimated: int
    latency_p50: float | None
    latency_p95: float | None
    stops: Mapping[str, int]
    outcomes: Mapping[str, int]
    drawn: float = 0.0


def costs_of(policy: Policy, seed: int) -> Costs | None:
    """Return what a policy took; None where it is not known of every episode.

    Args:
        policy: with a problem at least.
        seed: of the intervals' resampling.
    """
    problems = [[score.effort for score in own if score.effort is not None] for own in policy.episodes.values()]
    if [len(own) for own in problems] != [len(own) for own in policy.episodes.values()]:
        return None
    efforts = [effort for own in problems for effort in own]
    usd = per_problem(problems, lambda effort: effort.usd_without_reuse)
    rewards = list(policy.rewards.values())
    latencies = [effort.latency_seconds for effort in efforts if effort.latency_seconds is not None]
    timed = len(latencies) == len(efforts)
    return Costs(
        episodes=len(efforts),
        paid=sum((effort.usd for effort in efforts), Decimal(0)),
        usd=None if usd is None else mean_interval(usd, derive(seed, "usd")),
        usd_per_correct=None if usd is None else per_correct(usd, rewards, derive(seed, "usd per correct")),
        tokens_in=mean(per_problem(problems, lambda effort: effort.tokens_in)),
        tokens_out=mean(per_problem(problems, lambda effort: effort.tokens_out)),
        calls=mean_of([mean_of([effort.calls for effort in own]) for own in problems]),
        turns=mean_of([mean_of([effort.turns for effort in own]) for own in problems]),
        hits=sum(effort.hits for effort in efforts),
        errors=sum(effort.errors for effort in efforts),
        estimated=sum(effort.estimated for effort in efforts),
        latency_p50=float(np.quantile(latencies, 0.5)) if timed else None,
        latency_p95=float(np.quantile(latencies, 0.95)) if timed else None,
        stops=counts(effort.stop for effort in efforts),
        outcomes=counts(effort.outcome for effort in efforts),
        drawn=sum(effort.drawn for effort in efforts) / max(1, sum(effort.turns for effort in efforts)),
    )


def per_problem(
    problems: Sequence[Sequence[Effort]], figure: Callable[[Effort], float | Decimal | None]
) -> list[float] | None:
    """Return each problem's mean over its repeats; None when one figure is not known."""
    found = [[figure(effort) for effort in own] for own in problems]
    known = [[float(value) for value in own if value is not None] for own in found]
    if [len(own) for own in known] != [len(own) for own in found]:
        return None
    return [mean_of(own) for own in known]


def per_correct(usd: Sequence[float], rewards: Sequence[float], seed: int) -> Interval | None:
    """Return USD for each unit of reward with its interval over problems; None without any reward."""
    return ratio(np.asarray(usd), np.asarray(rewards), seed) if sum(rewards) > 0 else None


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def mean(values: Sequence[float] | None) -> float | None:
    return None if values is None else mean_of(values)


def counts(values: Iterable[str | None]) -> dict[str, int]:
    """Return how often each value occurs, the most frequent first; what is not known is not counted."""
    return dict(Counter(value for value in values if value is not None).most_common())
