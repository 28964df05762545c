"""Smoothie, dependent: every model answers, and per question the reply that agrees best with the others counts.

Guha et al. 2024 estimate each model's quality from the embeddings of the replies, without labels (trinity.md 6.2; the
formula is in ``agreement``). Without embeddings two replies are at a squared distance of 0 if their final answers are
the same and of 1 if not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.agreement import distances, most_agreed
from services.core.baselines.mixture import proposals
from services.core.baselines.scaffold import Same, ScaffoldCall, result_of
from services.core.campaign import ProtocolSpec
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

    def play(
        self,
        question: str,
        call: ScaffoldCall,
        protocol: ProtocolSpec,
        pool_size: int,
        rng: np.random.Generator,
        check: Callable[[], None],
    ) -> EpisodeResult:
        items = proposals(question, self.agents, call, protocol, check)
        answered = [item for item in items if item.answer is not None]
        if not answered:
            return result_of(question, items, items[-1])
        return result_of(question, items, answered[closest(self._distances(answered))])

    def _distances(self, items: Sequence[Item]) -> NDArray[np.float64]:
        if self.embed is None:
            return distances([item.answer for item in items], self.same)
        return squared_distances(np.stack([np.asarray(self.embed(item.output), dtype=np.float64) for item in items]))


def squared_distances(embeddings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |e_i - e_j|^2 for embeddings of shape (replies, dim)."""
    differences = embeddings[:, None, :] - embeddings[None, :, :]
    found: NDArray[np.float64] = (differences**2).sum(axis=2)
    return found


def closest(distance: NDArray[np.float64]) -> int:
    """Return the place of the reply that agrees best with the others, given squared distances; ties go to the first.

    Two replies say as much for each other, and there is no third to tell between them.
    """
    return most_agreed(distance) if len(distance) > 2 else 0
