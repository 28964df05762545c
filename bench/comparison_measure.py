"""What policies are worth on held-out questions and what they ask for, as expectations over their draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.comparison_game import Float64, choices, expected, rewards_at_end
from bench.comparison_learners import Lesson
from bench.comparison_prepared import Prepared
from bench.comparison_rivals import Rival

WORKER = 0  # the first role's place
SINGLE_TURN = 1


@dataclass(frozen=True)
class Measured:
    """Of every held-out question: reward, calls of models, cost in USD and turns, (questions,) each."""

    rewards: Float64
    calls: Float64
    usd: Float64
    turns: Float64


def of_choices(prepared: Prepared, lesson: Lesson, chosen: Float64, turns: int | None = None) -> Measured:
    """Measure a policy that is given by the probability of every action, (n, roles, agents)."""
    game = prepared.game
    asked = (game.prompt_bytes > 0).astype(np.float64)
    worth = np.stack([rewards_at_end(game, turns), asked, prepared.usd, np.ones_like(asked)], axis=-1)
    return Measured(*expected(game, chosen, worth, turns)[lesson.heldout].T)


def of_head(prepared: Prepared, lesson: Lesson, theta: Float64, turns: int | None = None) -> Measured:
    """Measure a linear head."""
    return of_choices(prepared, lesson, choices(prepared.game, lesson.layout, theta), turns)


def of_chance(prepared: Prepared, lesson: Lesson) -> Measured:
    """Measure agent and role uniform at every turn."""
    shape = prepared.game.reward.shape
    return of_choices(prepared, lesson, np.full(shape, 1 / (shape[1] * shape[2])))


def of_rival(prepared: Prepared, lesson: Lesson, rival: Rival) -> Measured:
    """Measure what answers in a single Worker turn."""
    roots = prepared.game.roots[lesson.heldout]
    paid = np.ones_like(rival.agents) if rival.everyone else rival.agents
    return Measured(
        rewards=(rival.agents * prepared.game.singles[lesson.heldout]).sum(axis=1),
        calls=paid.sum(axis=1),
        usd=(paid * prepared.usd[roots, WORKER]).sum(axis=1),
        turns=paid.sum(axis=1),
    )
