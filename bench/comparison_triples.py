"""What roles can add to the choice of models: a fixed Worker, Verifier and second Worker for every domain."""

from __future__ import annotations

import numpy as np

from bench.comparison_game import ENDS, Float64
from bench.comparison_learners import Lesson

WORKER, VERIFIER = 0, 1  # the roles' rows
NAME = "best triple per domain"
NOTE = "Worker, Verifier, and another Worker on REVISE, chosen on training questions; is told the domain"


def values(lesson: Lesson) -> Float64:
    """Return the reward of every triple on every question, (questions, agents, agents, agents)."""
    game = lesson.game
    agents = game.singles.shape[1]
    found = np.zeros((game.questions, agents, agents, agents))
    for first in range(agents):
        answered = game.child[game.roots, WORKER, first]
        for second in range(agents):
            revised = game.child[answered, VERIFIER, second]
            ended = game.reward[answered, VERIFIER, second]
            third = game.reward[np.maximum(revised, 0), WORKER]
            found[:, first, second] = np.where((revised == ENDS)[:, None], ended[:, None], third)
    return found


def choices(lesson: Lesson) -> Float64:
    """Return the policy that plays the best triple of every domain, (n, roles, agents)."""
    game, families = lesson.game, np.array(lesson.families)
    found, earned = np.zeros(game.reward.shape), values(lesson)
    for name in sorted(set(lesson.families)):
        training = lesson.training[families[lesson.training] == name]
        means = earned[training].mean(axis=0)
        triple = np.unravel_index(int(means.argmax()), means.shape)
        for depth, (role, agent) in enumerate(zip((WORKER, VERIFIER, WORKER), triple, strict=True)):
            rows = np.flatnonzero((families[game.question] == name) & (game.depth == depth))
            found[rows, role, agent] = 1.0
    return found
