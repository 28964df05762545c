"""One Worker turn of a model drawn at random, or with a multiple of the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.core.baselines.scaffold import ScaffoldCall, ask_worker, result_of
from services.core.campaign import ProtocolSpec
from services.core.protocol.episode import EpisodeResult


@dataclass(frozen=True)
class RandomWorker:
    """A model drawn uniformly; chance among single models, without roles or turns.

    Attributes:
        agents: pool indices to draw from.
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
        check()
        agent = self.agents[int(rng.integers(len(self.agents)))]
        item = ask_worker(question, (), call, protocol, turn=1, agent=agent)
        return result_of(question, [item], item)


@dataclass(frozen=True)
class LongAnswer:
    """One model that may write a multiple of the protocol's tokens (paper, section 4.1: 5xCTX).

    Attributes:
        agent: pool index.
        multiple: of ``protocol.max_output_tokens``.
    """

    agent: int
    multiple: int

    def play(
        self,
        question: str,
        call: ScaffoldCall,
        protocol: ProtocolSpec,
        pool_size: int,
        rng: np.random.Generator,
        check: Callable[[], None],
    ) -> EpisodeResult:
        check()
        limit = self.multiple * protocol.max_output_tokens
        item = ask_worker(question, (), call, protocol, turn=1, agent=self.agent, max_output_tokens=limit)
        return result_of(question, [item], item)
