"""Smoothie, the dependent form: every model answers, and the reply that is closest to the others counts.

How close is told by ``agreement``; the form with one model for the whole set is ``smoothie_independent``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.agreement import answer_distances, closest, squared_distances
from services.core.baselines.scaffold import Episode, Same
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.transcript import Item

# A reply's text -> its embedding, shape (dim,).
Embed = Callable[[str], NDArray[np.floating]]


@dataclass(frozen=True)
class Smoothie:
    """Replies without a final answer take no part: they could not be returned.

    Attributes:
        agents: pool indices that answer.
        same: the question's own comparison of answers.
        embed: embeds replies; None goes by answers alone.
    """

    agents: Sequence[int]
    same: Same
    embed: Embed | None = None

    def play(self, episode: Episode) -> EpisodeResult:
        items = episode.ask_each(self.agents)
        answered = [item for item in items if item.answer is not None]
        if not answered:
            return episode.result(items, items[-1])
        return episode.result(items, answered[closest(self._distances(answered))])

    def _distances(self, items: Sequence[Item]) -> NDArray[np.float64]:
        if self.embed is None:
            return answer_distances([item.answer for item in items], self.same)
        return squared_distances(np.stack([np.asarray(self.embed(item.output), dtype=np.float64) for item in items]))
