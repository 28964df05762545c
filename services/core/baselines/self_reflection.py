"""One model that answers and then reconsiders its own last answer (paper, section 4.1: 5xSR)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.core.baselines.scaffold import ScaffoldCall, ask_worker, result_of
from services.core.baselines.wording import RECONSIDER
from services.core.campaign import ProtocolSpec
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.transcript import Item


@dataclass(frozen=True)
class SelfReflection:
    """The last answer counts, whatever became of those before.

    Attributes:
        agent: pool index.
        turns: calls in all, the first answer among them.
    """

    agent: int
    turns: int

    def play(
        self,
        question: str,
        call: ScaffoldCall,
        protocol: ProtocolSpec,
        pool_size: int,
        rng: np.random.Generator,
        check: Callable[[], None],
    ) -> EpisodeResult:
        items: list[Item] = []
        for turn in range(1, self.turns + 1):
            check()
            added = RECONSIDER if items else ""
            items.append(ask_worker(question, items[-1:], call, protocol, turn=turn, agent=self.agent, added=added))
        return result_of(question, items, items[-1])
