"""How several models work together: MasRouter's six modes of collaboration as sequences of turns (trinity.md 6.2).

The original runs graphs of agents that read only their predecessors. Here every turn reads all earlier ones, as in any
episode, so a mode is the order in which agents act and the role in which they do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.core.protocol.roles import Role


class Mode(StrEnum):
    """The modes, in the order of the mode's logits."""

    IO = "io"  # one answer
    COT = "cot"  # one model plans, then answers
    CHAIN = "chain"  # one agent after the other, each in its own role
    FULL_CONNECTED = "full_connected"  # the same twice, so that everyone has read everyone
    DEBATE = "debate"  # all answer, read each other's answers, and answer again
    REFLECTION = "reflection"  # one answers, each of the others reviews, and it answers again


@dataclass(frozen=True)
class Turn:
    """Who acts, by pool index, and in which role."""

    agent: int
    role: Role


Schedule = tuple[Turn, ...]

SINGLE = frozenset({Mode.IO, Mode.COT})  # one agent only
ROLED = frozenset({Mode.CHAIN, Mode.FULL_CONNECTED})  # the agents' roles are chosen one by one
_NEEDED = {Mode.COT: Role.THINKER, Mode.REFLECTION: Role.VERIFIER}
_ROUNDS = 2


def playable(roles: Collection[Role]) -> tuple[Mode, ...]:
    """Return the modes that need no role but these, of which one is the Worker's."""
    return tuple(mode for mode in Mode if mode not in _NEEDED or _NEEDED[mode] in roles)


def given_roles(mode: Mode, number: int) -> tuple[Role, ...]:
    """Return the roles of a team's agents in a mode that leaves no choice of them.

    Raises:
        ValueError: the mode is one of ``ROLED``.
    """
    if mode in ROLED:
        raise ValueError(f"in the mode {mode} agents choose their roles")
    others = Role.VERIFIER if mode is Mode.REFLECTION else Role.WORKER
    return (Role.WORKER, *[others] * (number - 1))


def schedule(mode: Mode, team: Sequence[Turn]) -> Schedule:
    """Return the turns of a team, which ends with a Worker: the answer is that of the latest one.

    After several agents the team's first one decides, as the original's node for the final answer does.

    Args:
        mode: how the team works together.
        team: agents with their roles; the roles matter in the modes of ``ROLED`` only.

    Raises:
        ValueError: the team is empty.
    """
    if not team:
        raise ValueError("got a team of no agents, wanted at least one")
    lead = Turn(team[0].agent, Role.WORKER)
    match mode:
        case Mode.IO:
            return (lead,)
        case Mode.COT:
            return Turn(lead.agent, Role.THINKER), lead
        case Mode.CHAIN:
            return _decided(tuple(team), lead)
        case Mode.FULL_CONNECTED:
            return _decided(tuple(team) * _ROUNDS, lead)
        case Mode.DEBATE:
            return _decided(tuple(Turn(member.agent, Role.WORKER) for member in team) * _ROUNDS, lead)
        case Mode.REFLECTION:
            reviews = [Turn(member.agent, Role.VERIFIER) for member in team[1:] or team]
            return lead, *(turn for review in reviews for turn in (review, lead))


def _decided(turns: Schedule, lead: Turn) -> Schedule:
    """Return the turns and the lead's decision, unless nobody else has spoken and it has just answered."""
    alone = all(turn.agent == lead.agent for turn in turns)
    return turns if alone and turns[-1].role is Role.WORKER else (*turns, lead)
