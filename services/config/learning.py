"""What learners and fitted rivals need of the rest of a campaign; a file and a record name it alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from services.core.baselines.router import FEWEST
from services.core.campaign import Algorithm, HeadKind, Notes, Output, Start
from services.core.learners import Targets
from services.core.protocol.roles import Role
from services.core.rivals import FITTED, RivalKind

TEAM_TURNS = 3  # Worker, Verifier, second Worker
LARGEST_POOL = 20  # of a team's: 64 KB a problem

Path = tuple[str | int, ...]
Fault = tuple[Path, object, str]


class Search(Protocol):
    @property
    def algorithm(self) -> Algorithm: ...
    @property
    def start(self) -> Start: ...
    @property
    def entropy_bonus(self) -> float: ...
    @property
    def turn_bonus(self) -> float: ...
    @property
    def coordinator(self) -> str | None: ...


class Head(Protocol):
    @property
    def kind(self) -> HeadKind: ...
    @property
    def output(self) -> Output: ...


class Turns(Protocol):
    @property
    def roles(self) -> tuple[Role, ...]: ...
    @property
    def max_turns(self) -> int: ...
    @property
    def notes(self) -> Notes: ...


def learning_faults(
    search: Search, head: Head, turns: Turns, matrices: object, targets: Targets, models: int
) -> Iterator[Fault]:
    """Yield where a learner is given something that it cannot learn.

    Args:
        search: that section of a file, or of a record.
        head: likewise.
        turns: likewise ``protocol``.
        matrices: ``encoder.singular_values`` as it is written; anything but ``none`` and an empty list has some.
        targets: what a fit to labels aims at.
        models: in the pool.
    """
    algorithm = search.algorithm
    yield from _given(search)
    if algorithm is Algorithm.REINFORCE:
        yield from _reinforce(search, head, matrices)
    if algorithm is Algorithm.SFT or search.start is Start.SFT:
        if head.kind is not HeadKind.LINEAR:
            yield ("head", "kind"), str(head.kind), "linear: no other head is fitted to labels"
        if targets is Targets.TEAM:
            yield from _team(turns, models)
        elif algorithm is Algorithm.SFT:
            yield from _single_turn(turns)


def label_faults(search: Search, rivals: Sequence[RivalKind], labelled: int) -> Iterator[Fault]:
    """Yield what is to be fitted to labels that nobody asks for; ``labelled`` is ``labels.problems``."""
    needs = ["search.algorithm sft"] if search.algorithm is Algorithm.SFT else []
    needs += ["search.start sft"] if search.start is Start.SFT else []
    needs += [f"evaluation.rivals.{place} ({kind})" for place, kind in enumerate(rivals) if kind in FITTED]
    if needs and labelled < FEWEST:
        yield ("labels", "problems"), labelled, f"at least {FEWEST}: {needs[0]} is fitted to labelled problems"


def measuring_faults(search: Search, validation: int, evaluation: int) -> Iterator[Fault]:
    """Yield where nothing would be compared, or keep the last vector of a learner that cannot be told again."""
    if search.algorithm is Algorithm.GIVEN and not evaluation:
        yield ("evaluation", "problems"), 0, "at least 1 beside search.algorithm given: there is nothing else to do"
    if search.algorithm in (Algorithm.SFT, Algorithm.REINFORCE) and not validation and not evaluation:
        wanted = f"at least 1, or so many for evaluation: what {search.algorithm} ends with is kept by what measures it"
        yield ("validation", "problems"), 0, wanted


def _team(turns: Turns, models: int) -> Iterator[Fault]:
    beside = "beside supervised.targets team"
    if not {Role.WORKER, Role.VERIFIER} <= set(turns.roles):
        yield ("protocol", "roles"), _names(turns.roles), f"worker and verifier among them {beside}"
    if turns.max_turns < TEAM_TURNS:
        yield ("protocol", "max_turns"), turns.max_turns, f"at least {TEAM_TURNS} {beside}"
    if models > LARGEST_POOL:
        yield ("pool",), f"{models} models", f"at most {LARGEST_POOL} {beside}: each team of three has its reward"
    if turns.notes is not Notes.ALL:
        yield ("protocol", "notes"), str(turns.notes), f"all {beside}: the router has to read verdicts"


def _single_turn(turns: Turns) -> Iterator[Fault]:
    beside = f"beside search.algorithm sft, unless supervised.targets is {Targets.TEAM}"
    if turns.roles != (Role.WORKER,):
        yield ("protocol", "roles"), _names(turns.roles), f"[worker] {beside}: labels say nothing about roles"
    if turns.max_turns != 1:
        yield ("protocol", "max_turns"), turns.max_turns, f"1 {beside}: labels are of single turns"


def _names(roles: Sequence[Role]) -> list[str]:
    return [str(role) for role in roles]


def _given(search: Search) -> Iterator[Fault]:
    given = search.algorithm is Algorithm.GIVEN
    if given and search.coordinator is None:
        yield ("search", "coordinator"), None, "the name of a released coordinator beside search.algorithm given"
    if not given and search.coordinator is not None:
        yield ("search", "coordinator"), search.coordinator, f"none beside search.algorithm {search.algorithm}"
    if given and search.start is not Start.ZERO:
        yield ("search", "start"), str(search.start), "zero beside search.algorithm given, which starts where it ends"


def _reinforce(search: Search, head: Head, matrices: object) -> Iterator[Fault]:
    beside = "beside search.algorithm reinforce"
    if head.kind is not HeadKind.LINEAR:
        yield ("head", "kind"), str(head.kind), f"linear {beside}"
    if head.output is not Output.SOFTMAX:
        yield ("head", "output"), str(head.output), f"softmax {beside}: what is not drawn has no gradient"
    if matrices not in ("none", ()):
        yield ("encoder", "singular_values"), matrices, f"none {beside}: only the head is learnt"
    for name, value in (("entropy_bonus", search.entropy_bonus), ("turn_bonus", search.turn_bonus)):
        if value:
            yield ("search", name), value, f"0 {beside}: it learns from single rewards; see reinforce.entropy"
