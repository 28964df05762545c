"""Everything a coordinator is compared with, as far as recorded answers can tell: a probability for every action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.comparison_game import Float64, Indices
from bench.comparison_learners import Lesson
from services.core.baselines.agreement import Same, distances, most_agreed
from services.core.baselines.fitting import fit, router
from services.core.rivals import RivalKind, RivalSpec

ROUTERS = (RivalKind.LOOKUP, RivalKind.LOGISTIC)
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
    yield Rival("best single model", booked, one(np.full(held, best), count), note="chosen on labels")
    yield Rival("random model", 0, np.full((held, count), 1 / count))
    yield Rival("best model per domain", booked, one(best_per_domain(lesson), count), note="is told the domain")
    for kind in ROUTERS:
        spec = RivalSpec(kind)
        chosen = routed(lesson, spec, fit(spec, labels, lesson.seed))
        yield Rival(spec.label, booked, one(chosen, count))
    yield Rival("best model per question", 0, one(lesson.game.singles[lesson.heldout].argmax(axis=1), count), True, ORACLE)
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
    apart = [distances(lesson.answers[index], same(index)) for index in lesson.heldout]
    yield Rival("smoothie", 0, one(np.array([most_agreed(each) for each in apart]), count), True)
    votes = np.array([(each < 1).sum(axis=1) for each in apart])
    # The first answer of the largest group, as a scaffold that asks the models in the pool's order would return.
    given = np.array([[lesson.answers[index][agent] is not None for agent in range(count)] for index in lesson.heldout])
    yield Rival("majority of all models", 0, one(np.where(given, votes, 0).argmax(axis=1), count), True, OURS)
