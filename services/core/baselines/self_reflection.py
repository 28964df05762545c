"""One model that answers and then reconsiders its own last answer (paper, section 4.1: 5xSR)."""

from __future__ import annotations

from dataclasses import dataclass

from services.core.baselines.scaffold import Episode
from services.core.baselines.wording import RECONSIDER
from services.core.protocol.episode import EpisodeResult


@dataclass(frozen=True)
class SelfReflection:
    """The last answer counts, whatever became of those before.

    Attributes:
        agent: pool index.
        turns: calls in all, the first answer among them.
    """

    agent: int
    turns: int

    def play(self, episode: Episode) -> EpisodeResult:
        items = episode.ask_each([self.agent])
        for turn in range(2, self.turns + 1):
            items.append(episode.ask_worker(items[-1:], turn=turn, agent=self.agent, added=RECONSIDER))
        return episode.result(items, items[-1])
