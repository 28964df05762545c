"""Plays turns that are fixed before the first one: a way to use a pool that a mode of collaboration describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from services.core.baselines.modes import Turn
from services.core.baselines.scaffold import Episode
from services.core.campaign import ProtocolSpec
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.evidence import Examine
from services.core.protocol.ports import Decision
from services.core.protocol.roles import ROLE_ORDER
from services.core.protocol.transcript import Transcript


class SchedulePolicy:
    """Takes the turns one by one. One instance serves one episode: it counts them itself.

    What a router reads of a conversation does not tell the turn where it hides some roles' turns.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = iter(tuple(turns))

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        turn = next(self._turns)
        return Decision(turn.agent, turn.role)


@dataclass(frozen=True)
class Scheduled:
    """Answers a question by these turns; a Verifier that accepts ends them early, and a Thinker names no role.

    Attributes:
        turns: at least one; the answer is that of the latest Worker among them.
        examine: finds evidence on a Worker's turn.
    """

    turns: Sequence[Turn]
    examine: Examine = lambda work: None

    def play(self, episode: Episode) -> EpisodeResult:
        protocol = scheduled(episode.protocol, self.turns)
        return replace(episode, protocol=protocol).converse(SchedulePolicy(self.turns), self.examine)


def scheduled(protocol: ProtocolSpec, turns: Sequence[Turn]) -> ProtocolSpec:
    """Return the protocol with as many turns as there are, and the roles that they have.

    Raises:
        ValueError: there are no turns.
    """
    if not turns:
        raise ValueError("got no turns, wanted at least one")
    used = {turn.role for turn in turns}
    roles = tuple(role for role in ROLE_ORDER if role in used)
    return replace(protocol, roles=roles, max_turns=len(turns), thinker_sets_role=False)
