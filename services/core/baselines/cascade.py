"""MasRouter's cascade of choices: mode, number of agents, their roles, their models (Yue et al. 2025; trinity.md 6.2).

    z = tanh(A x + a)                                      x: the question's standardised state
    mode    ~ softmax((E_mode z + b_mode) / 0.8)
    number  ~ softmax(E_number (z + e_mode) + b_number)
    role_i  ~ softmax(E_role (z + e_mode + mean of e_role of the roles before) + b_role)
    model_i ~ softmax(E_model (z + e_mode + e_role of role_i + mean of e_model of the models before) + b_model)

where e is the chosen row of an E. The number and the roles are chosen in the modes that leave them open. Every choice
is a draw from a categorical distribution, so the logarithm of a cascade's probability and its gradient are exact.

In the original the number is no draw, and the models are counts of one multinomial draw: then the likeliest team is as
many times the same model. Here a model is chosen for its role, and beside the models chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.modes import ROLED, SINGLE, Mode, Schedule, Turn, given_roles, playable, schedule
from services.core.baselines.router import split
from services.core.policy.selection import draw, softmax
from services.core.protocol.roles import Role

Matrix = NDArray[np.float64]
Blocks = dict[str, NDArray[np.float64]]
Sources = tuple[tuple[str, int, float], ...]  # block, row, weight

WIDTH = 64
TEMPERATURES = {"mode": 0.8, "number": 1.0, "role": 1.0, "model": 1.0}
MOST_AGENTS = 6


@dataclass(frozen=True)
class Actions:
    """What was chosen.

    Attributes:
        mode: its place among the cascade's modes.
        roles: places among the cascade's roles, one per agent; empty where the mode gives them.
        models: pool indices, one per agent.
    """

    mode: int
    roles: tuple[int, ...]
    models: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """One draw of a cascade.

    Attributes:
        kind: block of vectors that it is made among.
        chosen: row of the block.
        sources: rows whose weighted sum, with z, the block's rows are compared with.
    """

    kind: str
    chosen: int
    sources: Sources


@dataclass(frozen=True)
class Cascade:
    """The shape of a cascade; its parameters are a vector of length ``size``.

    Attributes:
        models: of the pool.
        hidden: d, of the states.
        modes: those that may be chosen.
        roles: those that agents may have, the Worker's among them.
        most_agents: of a team.

    Raises:
        ValueError: a mode needs a role that agents may not have.
    """

    models: int
    hidden: int
    modes: tuple[Mode, ...] = tuple(Mode)
    roles: tuple[Role, ...] = tuple(Role)
    most_agents: int = MOST_AGENTS

    def __post_init__(self) -> None:
        if Role.WORKER not in self.roles or not set(self.modes) <= set(playable(self.roles)):
            raise ValueError(f"the roles {', '.join(self.roles)} do not do for the modes {', '.join(self.modes)}")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the blocks of the vector in order."""
        rows = {"mode": len(self.modes), "number": self.most_agents, "role": len(self.roles), "model": self.models}
        return {
            "encoder": (WIDTH, self.hidden),
            "encoder_bias": (WIDTH,),
            **{kind: (count, WIDTH) for kind, count in rows.items()},
            **{f"{kind}_bias": (count,) for kind, count in rows.items()},
        }

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def blocks(self, parameters: NDArray[Any]) -> Blocks:
        """Return a vector's blocks by name; raises LayoutMismatch."""
        return split(parameters, self.shapes)

    def first(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return parameters to start from, all choices about equally likely, shape (size,)."""
        spreads = {"encoder": self.hidden**-0.5, **dict.fromkeys(TEMPERATURES, 0.1)}
        parts = [
            spreads[name] * rng.standard_normal(shape) if name in spreads else np.zeros(shape)
            for name, shape in self.shapes.items()
        ]
        return np.concatenate([part.ravel() for part in parts])

    def sample(self, blocks: Blocks, state: NDArray[np.float64], rng: np.random.Generator) -> Actions:
        """Return a cascade drawn from its distribution, for a standardised state of shape (d,)."""
        return self._walk(blocks, state, lambda logits: draw(softmax(logits), rng))

    def likeliest(self, blocks: Blocks, state: NDArray[np.float64]) -> Actions:
        """Return the cascade of the likeliest choice at each step."""
        return self._walk(blocks, state, lambda logits: int(logits.argmax()))

    def schedule(self, actions: Actions) -> Schedule:
        """Return the turns that were chosen."""
        roles = self._roles(actions.mode, actions.roles, len(actions.models))
        team = [Turn(model, self.roles[role]) for model, role in zip(actions.models, roles, strict=True)]
        return schedule(self.modes[actions.mode], team)

    def score(
        self, blocks: Blocks, states: Matrix, chosen: Sequence[Actions], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return log-probabilities, shape (trials,), and the gradient of their weighted sum, shape (size,).

        Args:
            blocks: parameters.
            states: standardised, shape (trials, d).
            chosen: one cascade per state.
            weights: shape (trials,).
        """
        slopes: Blocks = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        encoded = _encoded(blocks, states)
        moved = np.zeros_like(encoded)
        logs = np.zeros(len(states))
        for trial, actions in enumerate(chosen):
            for choice in self._choices(actions):
                context = _context(blocks, encoded[trial], choice)
                probabilities = softmax(_logits(blocks, context, choice.kind))
                logs[trial] += np.log(probabilities[choice.chosen])
                slope = -weights[trial] * probabilities
                slope[choice.chosen] += weights[trial]
                slope /= TEMPERATURES[choice.kind]
                slopes[choice.kind] += np.outer(slope, context)
                slopes[f"{choice.kind}_bias"] += slope
                back = slope @ blocks[choice.kind]
                moved[trial] += back
                for name, row, share in choice.sources:
                    slopes[name][row] += share * back
        moved *= 1 - encoded**2
        slopes["encoder"], slopes["encoder_bias"] = moved.T @ states, moved.sum(axis=0)
        return logs, np.concatenate([slopes[name].ravel() for name in self.shapes])

    def _walk(self, blocks: Blocks, state: NDArray[np.float64], pick: Callable[[NDArray[np.float64]], int]) -> Actions:
        encoded = _encoded(blocks, state)

        def choose(kind: str, sources: Sources) -> int:
            return pick(_logits(blocks, _context(blocks, encoded, Choice(kind, -1, sources)), kind))

        mode = choose("mode", ())
        of_mode = (("mode", mode, 1.0),)
        alone = self.modes[mode] in SINGLE
        number = 1 if alone else 1 + choose("number", of_mode)
        roles: tuple[int, ...] = ()
        if self.modes[mode] in ROLED:
            for _ in range(number):
                roles = (*roles, choose("role", of_mode + _mean("role", roles)))
        models: tuple[int, ...] = ()
        for role in self._roles(mode, roles, number):
            models = (*models, choose("model", (*of_mode, ("role", role, 1.0), *_mean("model", models))))
        return Actions(mode, roles, models)

    def _choices(self, actions: Actions) -> Iterator[Choice]:
        """Yield the draws that led to these actions, in order."""
        of_mode = (("mode", actions.mode, 1.0),)
        yield Choice("mode", actions.mode, ())
        if self.modes[actions.mode] not in SINGLE:
            yield Choice("number", len(actions.models) - 1, of_mode)
        for place, role in enumerate(actions.roles):
            yield Choice("role", role, of_mode + _mean("role", actions.roles[:place]))
        for place, role in enumerate(self._roles(actions.mode, actions.roles, len(actions.models))):
            sources = (*of_mode, ("role", role, 1.0), *_mean("model", actions.models[:place]))
            yield Choice("model", actions.models[place], sources)

    def _roles(self, mode: int, chosen: tuple[int, ...], number: int) -> tuple[int, ...]:
        """Return the places of the agents' roles: those chosen, or those that the mode gives."""
        return chosen or tuple(self.roles.index(role) for role in given_roles(self.modes[mode], number))


def _encoded(blocks: Blocks, states: Matrix) -> Matrix:
    found: Matrix = np.tanh(states @ blocks["encoder"].T + blocks["encoder_bias"])
    return found


def _mean(kind: str, rows: Sequence[int]) -> Sources:
    return tuple((kind, row, 1.0 / len(rows)) for row in rows)


def _context(blocks: Blocks, encoded: NDArray[np.float64], choice: Choice) -> NDArray[np.float64]:
    context = encoded.copy()
    for name, row, share in choice.sources:
        context += share * blocks[name][row]
    return context


def _logits(blocks: Blocks, context: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (blocks[kind] @ context + blocks[f"{kind}_bias"]) / TEMPERATURES[kind]
    return found
