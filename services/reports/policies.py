"""The policies of a comparison: those that answered, and what a choice among the single models would have got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.reports.records import PolicyKind, Score

COORDINATOR = "trained coordinator"
RANDOM = "random choice"
FAMILY_BEST = "best model per family (optimistic)"
FAMILY_BEST_LABELLED = "best model per family (by labels)"
ORACLE = "per-problem oracle"

Key = tuple[PolicyKind, str]
Rewards = Mapping[str, float]  # problem -> mean reward over its repeats


@dataclass(frozen=True)
class Policy:
    """One policy with its scores by problem.

    Attributes:
        episodes: problem -> its scores, one per repeat; of an oracle, those of the model that it takes.
        bound: whether no policy could do this without knowing the held-out rewards.
    """

    kind: PolicyKind
    name: str
    episodes: Mapping[str, tuple[Score, ...]]
    bound: bool = False

    @property
    def rewards(self) -> Rewards:
        return {problem: mean_reward(own) for problem, own in self.episodes.items()}

    @property
    def repeats(self) -> int:
        """Return the most repeats of a problem."""
        return max(map(len, self.episodes.values()))

    def on(self, problems: set[str]) -> Policy:
        """Return the policy with these problems alone."""
        kept = {problem: own for problem, own in self.episodes.items() if problem in problems}
        return Policy(self.kind, self.name, kept, self.bound)


def mean_reward(scores: Sequence[Score]) -> float:
    return sum(score.reward for score in scores) / len(scores)


def by_policy(scores: Iterable[Score]) -> list[Policy]:
    """Group scores: the coordinator first, then single models, chance and rivals, each in order of appearance."""
    found: dict[Key, dict[str, list[Score]]] = {}
    for score in scores:
        found.setdefault((score.kind, score.policy), {}).setdefault(score.problem, []).append(score)
    order = list(PolicyKind)
    return [
        Policy(kind, name, {problem: tuple(own) for problem, own in problems.items()})
        for (kind, name), problems in sorted(found.items(), key=lambda item: order.index(item[0][0]))
    ]


def told_apart(policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies under different names: a model may be called like a campaign or a rival."""
    taken: set[str] = set()
    found = []
    for policy in policies:
        name = policy.name if policy.name not in taken else f"{policy.name} ({policy.kind})"
        taken.add(name)
        found.append(replace(policy, name=name))
    return found


def derived_policies(
    policies: Sequence[Policy], family_of: Mapping[str, str], family_choice: Mapping[str, str]
) -> list[Policy]:
    """Return what choosing among single models gets: per family, and per problem with the rewards known.

    Args:
        policies: those that answered.
        family_of: problem -> family.
        family_choice: family -> model, chosen on labelled training problems; empty without labels, where the choice
            falls to the scores that it is then judged by, which is optimistic.
    """
    singles = [policy for policy in policies if policy.kind is PolicyKind.SINGLE]
    if len(singles) < 2:
        return []
    shared = set.intersection(*(set(policy.episodes) for policy in singles))
    if not shared:
        return []
    order = [problem for problem in singles[0].episodes if problem in shared]
    found = []
    if (by_labels := labelled_best(singles, order, family_of, family_choice)) is not None:
        found.append(by_labels)
    elif len({family_of[problem] for problem in order}) > 1:
        found.append(optimistic_best(singles, order, family_of))
    oracle = {problem: max((own.episodes[problem] for own in singles), key=mean_reward) for problem in order}
    return [*found, Policy(PolicyKind.ORACLE, ORACLE, oracle, bound=True)]


def labelled_best(
    singles: Sequence[Policy], problems: Sequence[str], family_of: Mapping[str, str], choice: Mapping[str, str]
) -> Policy | None:
    """Return the model of each problem's family, None when some family was not labelled."""
    of_name = {policy.name: policy for policy in singles}
    if any(choice.get(family_of[problem]) not in of_name for problem in problems):
        return None
    episodes = {problem: of_name[choice[family_of[problem]]].episodes[problem] for problem in problems}
    return Policy(PolicyKind.FAMILY_BEST, FAMILY_BEST_LABELLED, episodes)


def optimistic_best(singles: Sequence[Policy], problems: Sequence[str], family_of: Mapping[str, str]) -> Policy:
    """Return the model of each problem's family that is best on these very problems."""
    chosen = {
        family: best_on([problem for problem in problems if family_of[problem] == family], singles)
        for family in {family_of[problem] for problem in problems}
    }
    episodes = {problem: chosen[family_of[problem]].episodes[problem] for problem in problems}
    return Policy(PolicyKind.FAMILY_BEST, FAMILY_BEST, episodes, bound=True)


def best_on(problems: Sequence[str], singles: Sequence[Policy]) -> Policy:
    return max(singles, key=lambda policy: sum(mean_reward(policy.episodes[problem]) for problem in problems))
