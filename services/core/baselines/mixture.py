"""Mixture of agents with one layer: every model proposes, a random one aggregates (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.core.baselines.scaffold import ScaffoldCall, ask_worker, result_of
from services.core.baselines.wording import SYNTHESISE
from services.core.campaign import ProtocolSpec
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.transcript import Item


def proposals(
    question: str, agents: Sequence[int], call: ScaffoldCall, protocol: ProtocolSpec, check: Callable[[], None]
) -> list[Item]:
    """Return every model's own answer to the question, in the order of ``agents``; they do not see each other's."""
    items = []
    for turn, agent in enumerate(agents, start=1):
        check()
        items.append(ask_worker(question, (), call, protocol, turn=turn, agent=agent))
    return items


@dataclass(frozen=True)
class Mixture:
    """The aggregator is drawn anew for every question; it reads all proposals, its own among them.

    Attributes:
        agents: pool indices that propose and may aggregate.
    """

    agents: Sequence[int]

    def play(
        self,
        question: str,
        call: ScaffoldCall,
        protocol: ProtocolSpec,
        pool_size: int,
        rng: np.random.Generator,
        check: Callable[[], None],
    ) -> EpisodeResult:
        aggregator = self.agents[int(rng.integers(len(self.agents)))]
        items = proposals(question, self.agents, call, protocol, check)
        check()
        turn = len(items) + 1
        last = ask_worker(question, items, call, protocol, turn=turn, agent=aggregator, added=SYNTHESISE)
        return result_of(question, [*items, last], last)
