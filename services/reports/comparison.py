"""The comparison on held-out problems: every policy with its sample size and interval, and the paired difference.

Every policy answers the same problems with the same seeds, so differences are taken problem by problem. The best
single model is chosen by the very scores it is then judged by, which favours it, not the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.core.seeds import derive
from services.core.statistics.intervals import Interval, mean_interval, paired_difference, wilson
from services.reports.records import PolicyKind, Score

COORDINATOR = "trained coordinator"
RANDOM = "random choice"
FAMILY_BEST = "best model per family"
ORACLE = "per-problem oracle"

# problem -> mean reward over its replicates
Rewards = Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """One policy on ``n`` problems: mean reward with its 95 % interval."""

    kind: PolicyKind
    policy: str
    n: int
    interval: Interval


@dataclass(frozen=True)
class Difference:
    """Mean reward of the coordinator minus that of ``against`` on the ``n`` problems that both answered."""

    against: str
    n: int
    interval: Interval


@dataclass(frozen=True)
class Comparison:
    """The table; ``families`` has one such table per family when there are several."""

    lines: tuple[Line, ...]
    differences: tuple[Difference, ...]
    families: Mapping[str, tuple[Line, ...]]

    @property
    def best_single(self) -> Line | None:
        return best(line for line in self.lines if line.kind is PolicyKind.SINGLE)


def compare(scores: Sequence[Score], seed: int) -> Comparison:
    """Return the comparison of all policies in ``scores``; without scores it has no lines.

    Args:
        scores: held-out rewards; several of one problem and policy are averaged.
        seed: of the intervals' resampling, so that a report can be printed again to the digit.
    """
    policies = by_policy(scores)
    family_of = {score.problem: score.family for score in scores}
    derived = dict(policies) | derived_policies(policies, family_of)
    lines = lines_of(derived, seed)
    names = sorted(set(family_of.values()))
    families = {
        family: lines_of(restricted(derived, {p for p, own in family_of.items() if own == family}), seed, family)
        for family in (names if len(names) > 1 else ())
    }
    return Comparison(lines, differences_of(derived, lines, seed), families)


Key = tuple[PolicyKind, str]


def by_policy(scores: Iterable[Score]) -> dict[Key, Rewards]:
    """Group rewards: the coordinator first, then the single models in the order of their appearance, then chance."""
    found: dict[Key, dict[str, list[float]]] = {}
    for score in scores:
        found.setdefault((score.kind, score.policy), {}).setdefault(score.problem, []).append(score.reward)
    means = {key: {name: sum(own) / len(own) for name, own in problems.items()} for key, problems in found.items()}
    order = list(PolicyKind)
    return dict(sorted(means.items(), key=lambda item: order.index(item[0][0])))


def derived_policies(policies: Mapping[Key, Rewards], family_of: Mapping[str, str]) -> dict[Key, Rewards]:
    """Return what a perfect choice of single models would get, per family and per problem."""
    singles = [rewards for (kind, _), rewards in policies.items() if kind is PolicyKind.SINGLE]
    if len(singles) < 2:
        return {}
    shared = sorted(set.intersection(*(set(rewards) for rewards in singles)))
    if not shared:
        return {}
    found: dict[Key, Rewards] = {}
    families = {family_of[problem] for problem in shared}
    if len(families) > 1:
        chosen = {family: best_on([p for p in shared if family_of[p] == family], singles) for family in families}
        found[PolicyKind.FAMILY_BEST, FAMILY_BEST] = {p: chosen[family_of[p]][p] for p in shared}
    found[PolicyKind.ORACLE, ORACLE] = {p: max(rewards[p] for rewards in singles) for p in shared}
    return found


def best_on(problems: Sequence[str], singles: Sequence[Rewards]) -> Rewards:
    return max(singles, key=lambda rewards: sum(rewards[problem] for problem in problems))


def restricted(policies: Mapping[Key, Rewards], problems: set[str]) -> dict[Key, Rewards]:
    kept = {key: {p: r for p, r in rewards.items() if p in problems} for key, rewards in policies.items()}
    return {key: rewards for key, rewards in kept.items() if rewards}


def lines_of(policies: Mapping[Key, Rewards], seed: int, *path: str) -> tuple[Line, ...]:
    return tuple(
        Line(
            kind,
            name,
            len(rewards),
            interval_of(list(rewards.values()), derive(seed, "report", *path, kind.value, name)),
        )
        for (kind, name), rewards in policies.items()
    )


def interval_of(rewards: Sequence[float], seed: int) -> Interval:
    """Return the 95 % interval of a mean reward: Wilson's when every reward is 0 or 1, else a bootstrap."""
    if all(reward in (0.0, 1.0) for reward in rewards):
        return wilson(round(sum(rewards)), len(rewards))
    return mean_interval(rewards, seed)


def differences_of(policies: Mapping[Key, Rewards], lines: Sequence[Line], seed: int) -> tuple[Difference, ...]:
    """Return the coordinator's paired differences to the best single model and to chance."""
    own = policies.get((PolicyKind.COORDINATOR, COORDINATOR))
    if own is None:
        return ()
    rivals = [best(line for line in lines if line.kind is PolicyKind.SINGLE)]
    rivals.append(best(line for line in lines if line.kind is PolicyKind.RANDOM))
    found = []
    for rival in rivals:
        if rival is None:
            continue
        theirs = policies[rival.kind, rival.policy]
        shared = sorted(set(own) & set(theirs))
        if shared:
            pairs = [own[p] for p in shared], [theirs[p] for p in shared]
            interval = paired_difference(*pairs, derive(seed, "report", "difference", rival.policy))
            found.append(Difference(rival.policy, len(shared), interval))
    return tuple(found)


def best(lines: Iterable[Line]) -> Line | None:
    return max(lines, key=lambda line: line.interval.estimate, default=None)
