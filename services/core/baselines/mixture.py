"""Mixture of agents with one layer: every model proposes, a random one aggregates (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.core.baselines.scaffold import Episode
from services.core.baselines.wording import SYNTHESISE
from services.core.protocol.episode import EpisodeResult


@dataclass(frozen=True)
class Mixture:
    """The aggregator is drawn anew for every question; it reads all proposals, its own among them.

    Attributes:
        agents: pool indices that propose and may aggregate.
    """

    agents: Sequence[int]

    def play(self, episode: Episode) -> EpisodeResult:
        aggregator = episode.draw(self.agents)
        proposals = episode.ask_each(self.agents)
        last = episode.ask_worker(proposals, turn=len(proposals) + 1, agent=aggregator, added=SYNTHESISE)
        return episode.result([*proposals, last], last)
