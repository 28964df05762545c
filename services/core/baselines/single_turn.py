"""One Worker turn of a model drawn at random, or with a multiple of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.core.baselines.scaffold import Episode
from services.core.protocol.episode import EpisodeResult


@dataclass(frozen=True)
class RandomWorker:
    """A model drawn uniformly; chance among single models, without roles or turns.

    Attributes:
        agents: pool indices to draw from.
    """

    agents: Sequence[int]

    def play(self, episode: Episode) -> EpisodeResult:
        item = episode.ask_worker(turn=1, agent=episode.draw(self.agents))
        return episode.result([item], item)


@dataclass(frozen=True)
class LongAnswer:
    """One model that may write a multiple of the protocol's tokens (paper, section 4.1: 5xCTX).

    Attributes:
        agent: pool index.
        multiple: of ``protocol.max_output_tokens``.
    """

    agent: int
    multiple: int

    def play(self, episode: Episode) -> EpisodeResult:
        limit = self.multiple * episode.protocol.max_output_tokens
        item = episode.ask_worker(turn=1, agent=self.agent, max_output_tokens=limit)
        return episode.result([item], item)
