"""One model asked several times; the most frequent answer counts (paper, appendix A.7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.core.baselines.scaffold import Episode, Same
from services.core.protocol.episode import EpisodeResult


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

    def play(self, episode: Episode) -> EpisodeResult:
        items = episode.ask_each([self.agent] * self.samples)
        return episode.result(items, items[plurality([item.answer for item in items], self.same)])


def plurality(answers: Sequence[str | None], same: Same) -> int:
    """Return the place of the answer that most answers are the same as; ties go to the first.

    A reply without an answer has no vote. Votes are counted by comparison, since answers that are written differently
    may be the same; without any answer the last place is returned.
    """
    votes = [sum(same(answer, other) for other in answers) for answer in answers]
    given = [place for place, answer in enumerate(answers) if answer is not None]
    return max(given, key=lambda place: (votes[place], -place), default=len(answers) - 1)
