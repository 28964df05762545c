"""One model asked several times; the most frequent answer counts (paper, appendix A.7.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.core.baselines.scaffold import Same, ScaffoldCall, ask_worker, result_of
from services.core.campaign import ProtocolSpec
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.transcript import Item


@dataclass(frozen=True)
class Majority:
    """Every sample is a call of its own that reads the question alone; what was said before is not shown.

    Attributes:
        agent: pool index.
        samples: answers that vote.
        same: the question's own comparison of answers.
    """

    agent: int
    samples: int
    same: Same

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
        for turn in range(1, self.samples + 1):
            check()
            items.append(ask_worker(question, (), call, protocol, turn=turn, agent=self.agent))
        return result_of(question, items, items[plurality([item.answer for item in items], self.same)])


def plurality(answers: Sequence[str | None], same: Same) -> int:
    """Return the place of the answer that most answers are the same as; ties go to the first.

    A reply without an answer has no vote. Votes are counted by comparison, since answers that are written differently
    may be the same; without any answer the last place is returned.
    """
    votes = [sum(same(answer, other) for other in answers) for answer in answers]
    given = [place for place, answer in enumerate(answers) if answer is not None]
    return max(given, key=lambda place: (votes[place], -place), default=len(answers) - 1)
