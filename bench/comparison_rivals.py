"""Everything a coordinator is compared with, as far as recorded answers can tell: a probability for every action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.comparison_game import Float64, Indices
from bench.comparison_learners import Lesson
from services.core.baselines.agreement import answer_distances, closest
from services.core.baselines.fitting import fit, router
from services.core.baselines.scaffold import Same
from services.core.rivals import RivalKind, RivalSpec

ROUTERS = (RivalKind.LOOKUP, RivalKind.LOGISTIC, RivalKind.ROUTER_DC, RivalKind.MAS_ROUTER)
BEST_SINGLE = "best single model"
BEST_PER_DOMAIN = "best model per domain"
ORACLE = "an upper bound: knows every answer's reward"
OURS = "not the paper's: it asks one model several times"


@dataclass(frozen=True)
class Rival:
    """One way of answering in a single Worker turn.

    Attributes:
        name: in tables.
        booked: training episodes: labels, where it needs any.
        agents: whose answer counts, by probability, (held-out questions, agents).
        everyone: whether all models are asked for it, or that model alone.
        note: what to know about it.
    """

    name: str
    booked: int
    agents: Float64
    everyone: bool = False
    note: str = ""


def rivals(lesson: Lesson, models: Sequence[str], same: Callable[[int], Same]) -> Iterator[Rival]:
    """Yield every rival that one Worker turn can tell.

    Args:
        lesson: the split; labels come from its training questions alone.
        models: names.
        same: of a question: compares two answers to it.
    """
    count, held = len(models), len(lesson.heldout)
    labels = lesson.labels()
    booked = labels.rewards.size
    for index, name in enumerate(models):
        yield Rival(f"single: {name}", 0, one(np.full(held, index), count))
    best = int(labels.means.mean(axis=0).argmax())
    yield Rival(BEST_SINGLE, booked, one(np.full(held, best), count), note="chosen on labels")
    yield Rival("random model", 0, np.full((held, count), 1 / count))
    yield Rival(BEST_PER_DOMAIN, booked, one(best_per_domain(lesson), count), note="is told the domain")
    for kind in ROUTERS:
        spec = RivalSpec(kind)
        chosen = routed(lesson, spec, fit(spec, labels, lesson.seed))
        yield Rival(spec.label, booked, one(chosen, count))
    yield Rival(
        "best model per question", 0, one(lesson.game.singles[lesson.heldout].argmax(axis=1), count), True, ORACLE
    )
    if any(answer is not None for answer in lesson.answers[0]):
        yield from agreeing(lesson, count, same)


def one(chosen: Indices, count: int) -> Float64:
    """Return certainty, (questions, agents)."""
    certain: Float64 = np.eye(count)[chosen]
    return certain


def best_per_domain(lesson: Lesson) -> Indices:
    """Return for each held-out question the model that did best in its domain on the labels."""
    labels = lesson.labels()
    families = np.array(labels.families)
    best = {name: int(labels.means[families == name].mean(axis=0).argmax()) for name in sorted(set(families))}
    return np.array([best[lesson.families[index]] for index in lesson.heldout])


def routed(lesson: Lesson, spec: RivalSpec, parameters: Float64) -> Indices:
    """Return whom a fitted router names for each held-out question."""
    states = lesson.game.states[lesson.game.roots[lesson.heldout]]
    found = router(spec, parameters, lesson.game.singles.shape[1], states.shape[1])
    rng = np.random.default_rng(lesson.seed)  # none of them draws
    return np.array([found.agent(state, rng) for state in states])


def agreeing(lesson: Lesson, count: int, same: Callable[[int], Same]) -> Iterator[Rival]:
    """Yield what goes by agreement between the models' answers."""
    spec = RivalSpec(RivalKind.SMOOTHIE_INDEPENDENT)
    labels = lesson.labels()
    constant = routed(lesson, spec, fit(spec, labels, lesson.seed))
    yield Rival(spec.label, labels.rewards.size, one(constant, count), note="needs answers, no rewards")
    smoothie, majority = (
        np.array([chosen(lesson.answers[index], same(index)) for index in lesson.heldout])
        for chosen in (most_agreed, most_frequent)
    )
    yield Rival("smoothie", 0, one(smoothie, count), True)
    yield Rival("majority of all models", 0, one(majority, count), True, OURS)


def most_agreed(answers: Sequence[str | None], same: Same) -> int:
    """Return whose answer Smoothie takes, as ``Smoothie.play``: who gave none takes no part, unless nobody did."""
    given = [agent for agent, answer in enumerate(answers) if answer is not None] or [len(answers) - 1]
    return given[closest(answer_distances([answers[agent] for agent in given], same))]


def most_frequent(answers: Sequence[str | None], same: Same) -> int:
    """Return the first agent whose answer is the most frequent one."""
    votes = [sum(same(answer, other) for other in answers) for answer in answers]
    return int(np.argmax(votes))
