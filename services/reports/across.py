"""Several campaigns in one comparison: their coordinators on the held-out problems that all of them answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from services.core.errors import SpecError
from services.reports.comparison import Comparison, compare
from services.reports.records import PolicyKind, Score

ALWAYS = ("learner", "seed", "state")  # settings that are told even where they are the same in all campaigns


@dataclass(frozen=True)
class Entry:
    """One campaign.

    Attributes:
        settings: heading -> text, the ones of ``ALWAYS`` and others.
        usd: all that it has spent, training included.
        scores: of its held-out episodes, all policies.
        contents: problem key -> digest of the problem, as keys alone may be the same by chance.
        family_choice: family -> the model that was best on its labelled training problems.
    """

    name: str
    seed: int
    settings: Mapping[str, str]
    usd: Decimal
    scores: tuple[Score, ...]
    contents: Mapping[str, str]
    family_choice: Mapping[str, str] = field(default_factory=dict)

    @property
    def answered(self) -> dict[str, str]:
        """Return the problems that its coordinator has answered, each with its digest."""
        own = (score.problem for score in self.scores if score.kind is PolicyKind.COORDINATOR)
        return {problem: self.contents[problem] for problem in own}


@dataclass(frozen=True)
class Across:
    """The comparison of several campaigns; every line is on the ``shared`` problems alone."""

    entries: tuple[Entry, ...]
    shared: int
    comparison: Comparison


def across(entries: Sequence[Entry]) -> Across:
    """Return the campaigns' coordinators under the campaigns' names, with the other policies of the first campaign.

    Differences are the first campaign's coordinator minus each other policy.

    Raises:
        SpecError: a campaign is named twice, has no held-out score of its coordinator, or shares no problem with all
            the others.
    """
    names = [entry.name for entry in entries]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise SpecError("campaigns", name, "each campaign once")
    shared = shared_problems(entries)
    first, *others = entries
    scores = [renamed(score, first.name) for score in first.scores if score.problem in shared]
    for entry in others:
        scores += [
            replace(score, kind=PolicyKind.PEER, policy=entry.name)
            for score in entry.scores
            if score.kind is PolicyKind.COORDINATOR and score.problem in shared
        ]
    return Across(tuple(entries), len(shared), compare(scores, first.seed, first.family_choice))


def renamed(score: Score, name: str) -> Score:
    return replace(score, policy=name) if score.kind is PolicyKind.COORDINATOR else score


def shared_problems(entries: Sequence[Entry]) -> set[str]:
    """Return the keys of the problems that every campaign's coordinator answered."""
    first, *others = entries
    shared = set(first.answered.items())
    for entry in entries:
        if not entry.answered:
            raise SpecError(
                "campaign", entry.name, "a campaign whose coordinator has answered held-out problems; this has not yet"
            )
    for entry in others:
        left = shared & set(entry.answered.items())
        if not left:
            raise SpecError("campaigns", f"{first.name} and {entry.name}", nothing_shared(first, entry, bool(shared)))
        shared = left
    return {problem for problem, _ in shared}


def nothing_shared(first: Entry, entry: Entry, any_left: bool) -> str:
    """Return what is wanted instead, with the figures that tell why."""
    mine, theirs = first.answered, entry.answered
    same = len(set(mine) & set(theirs))
    equal = len(set(mine.items()) & set(theirs.items()))
    counts = f"{first.name} answered {len(mine)}, {entry.name} {len(theirs)}, {equal} of them the same"
    if same > equal:
        counts += f" ({same} have the same key, but not the same question and reference)"
    wanted = "campaigns that share held-out problems, for example by the same problems section and seed"
    together = "" if equal == 0 or not any_left else "; none of these is shared with the campaigns between"
    return f"{wanted}; {counts}{together}"
