"""The comparison on held-out problems: every policy with its sample size, interval and costs, and paired differences.

Every policy answers the same problems with the same seeds, so differences are taken problem by problem; repeats of a
problem are averaged first, as they are no independent evidence. The best single model is chosen by the very scores it
is then judged by, which favours it, not the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from services.core.seeds import derive
from services.core.statistics.frontier import pareto_front
from services.core.statistics.intervals import Interval, mean_interval, paired_difference, wilson
from services.core.statistics.paired_tests import Discordance, discordance, holm
from services.reports.costs import Costs, costs_of
from services.reports.policies import (
    COORDINATOR,
    FAMILY_BEST,
    FAMILY_BEST_LABELLED,
    ORACLE,
    RANDOM,
    Policy,
    by_policy,
    derived_policies,
    told_apart,
)
from services.reports.records import PolicyKind, Score

__all__ = ["COORDINATOR", "FAMILY_BEST", "FAMILY_BEST_LABELLED", "ORACLE", "RANDOM"]


@dataclass(frozen=True)
class Line:
    """One policy on ``n`` problems: mean reward with its 95 % interval, repeats of each problem, and what it took.

    ``bound`` marks what no policy could do without knowing the held-out rewards.
    """

    kind: PolicyKind
    policy: str
    n: int
    interval: Interval
    repeats: int = 1
    costs: Costs | None = None
    bound: bool = False


@dataclass(frozen=True)
class Difference:
    """Mean reward of the coordinator minus that of ``against`` on the ``n`` problems that both answered.

    Attributes:
        discordance: on how many problems it did better, worse and equally well.
        p: of McNemar's exact test; None against bounds, about which there is nothing to find out.
        adjusted: the same by Holm's correction for all policies of the table that have one.
    """

    against: str
    n: int
    interval: Interval
    discordance: Discordance
    p: float | None = None
    adjusted: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The table; ``families`` and ``family_differences`` have one such table per family when there are several."""

    lines: tuple[Line, ...]
    differences: tuple[Difference, ...]
    families: Mapping[str, tuple[Line, ...]]
    family_differences: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Return the name of the coordinator that differences are taken from; a general word without one."""
        return next((line.policy for line in self.lines if line.kind is PolicyKind.COORDINATOR), "coordinator")

    @property
    def best_single(self) -> Line | None:
        return best(line for line in self.lines if line.kind is PolicyKind.SINGLE)

    @property
    def best_rival(self) -> Line | None:
        """Return the best of what is neither a single model nor chance, nor a bound."""
        kinds = (PolicyKind.RIVAL, PolicyKind.FAMILY_BEST)
        return best(line for line in self.lines if line.kind in kinds and not line.bound)

    @property
    def headline(self) -> tuple[Difference, ...]:
        """Return the differences to the best single model, to the best rival and to chance, where there are any."""
        rivals = (
            self.best_single,
            self.best_rival,
            best(line for line in self.lines if line.kind is PolicyKind.RANDOM),
        )
        wanted = [rival.policy for rival in rivals if rival is not None]
        return tuple(each for name in wanted for each in self.differences if each.against == name)

    @property
    def frontier(self) -> tuple[Line, ...]:
        """Return the policies that no other one beats in both reward and USD per question, by rising cost.

        Bounds are left out: nobody can have them.
        """
        able = [line for line in self.lines if not line.bound]
        priced = [(line, line.costs.usd.estimate) for line in able if line.costs is not None and line.costs.usd]
        front = pareto_front([usd for _, usd in priced], [line.interval.estimate for line, _ in priced])
        return tuple(priced[at][0] for at in front)

    def family_means(self, policy: str) -> dict[str, float]:
        """Return a policy's mean reward by family, of those that it answered."""
        return {
            family: line.interval.estimate
            for family, lines in self.families.items()
            for line in lines
            if line.policy == policy
        }


def compare(scores: Sequence[Score], seed: int, family_choice: Mapping[str, str] | None = None) -> Comparison:
    """Return the comparison of all policies in ``scores``; without scores it has no lines.

    Args:
        scores: held-out rewards; several of one problem and policy are averaged.
        seed: of the intervals' resampling, so that a report can be printed again to the digit.
        family_choice: family -> the model that was best on labelled training problems.
    """
    policies = by_policy(scores)
    family_of = {score.problem: score.family for score in scores}
    everyone = told_apart([*policies, *derived_policies(policies, family_of, family_choice or {})])
    names = sorted(set(family_of.values()))
    parts = {
        family: restricted(everyone, {problem for problem, own in family_of.items() if own == family})
        for family in (names if len(names) > 1 else ())
    }
    return Comparison(
        lines_of(everyone, seed),
        differences_of(everyone, seed),
        {family: lines_of(own, seed, family) for family, own in parts.items()},
        {family: differences_of(own, seed, family) for family, own in parts.items()},
    )


def restricted(policies: Sequence[Policy], problems: set[str]) -> list[Policy]:
    """Return the policies on these problems, those that answered none of them left out."""
    return [kept for policy in policies if (kept := policy.on(problems)).episodes]


def lines_of(policies: Sequence[Policy], seed: int, *path: str) -> tuple[Line, ...]:
    return tuple(line_of(policy, derive(seed, "report", *path, policy.kind.value, policy.name)) for policy in policies)


def line_of(policy: Policy, seed: int) -> Line:
    rewards = list(policy.rewards.values())
    # Whoever knew which model to take would still have to know it: an oracle has no price.
    costs = None if policy.kind is PolicyKind.ORACLE else costs_of(policy, seed)
    interval = interval_of(rewards, seed)
    return Line(policy.kind, policy.name, len(rewards), interval, policy.repeats, costs, policy.bound)


def interval_of(rewards: Sequence[float], seed: int) -> Interval:
    """Return the 95 % interval of a mean reward: Wilson's when every reward is 0 or 1, else a bootstrap."""
    if all(reward in (0.0, 1.0) for reward in rewards):
        return wilson(round(sum(rewards)), len(rewards))
    return mean_interval(rewards, seed)


def differences_of(policies: Sequence[Policy], seed: int, *path: str) -> tuple[Difference, ...]:
    """Return the coordinator's paired differences to every other policy, in the order of the policies."""
    own = next((policy for policy in policies if policy.kind is PolicyKind.COORDINATOR), None)
    if own is None:
        return ()
    found = [difference(own, policy, seed, *path) for policy in policies if policy is not own]
    return adjusted([each for each in found if each is not None])


def difference(own: Policy, other: Policy, seed: int, *path: str) -> Difference | None:
    """Return the paired difference on the problems that both answered, None without any."""
    mine, theirs = own.rewards, other.rewards
    shared = [problem for problem in mine if problem in theirs]
    if not shared:
        return None
    pairs = [mine[problem] for problem in shared], [theirs[problem] for problem in shared]
    counted = discordance(*pairs)
    interval = paired_difference(*pairs, derive(seed, "report", *path, "difference", other.name))
    return Difference(other.name, len(shared), interval, counted, None if other.bound else counted.p)


def adjusted(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return the differences with Holm's p-values, those without a p-value as they are."""
    corrected = iter(holm([each.p for each in differences if each.p is not None]))
    return tuple(each if each.p is None else replace(each, adjusted=next(corrected)) for each in differences)


def best(lines: Iterable[Line]) -> Line | None:
    return max(lines, key=lambda line: line.interval.estimate, default=None)
