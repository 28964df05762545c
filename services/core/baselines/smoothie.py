"""Smoothie, the dependent form: every model answers, and the reply that is closest to the others counts.

Guha et al. 2024 estimate each model's quality without labels. With embeddings e of the replies to one question,

    diff_i = mean over pairs (j, k) of (|e_i - e_j|^2 + |e_i - e_k|^2 - |e_j - e_k|^2) / 2,
    theta_i = dim / (2 diff_i),

and the model with the largest theta is taken (trinity.md 6.2). Without embeddings two replies are at a squared distance
of 0 if their final answers are the same and of 1 if not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
            return answer_distances([item.answer for item in items], self.same)
        return squared_distances(np.stack([np.asarray(self.embed(item.output), dtype=np.float64) for item in items]))


def answer_distances(answers: Sequence[str | None], same: Same) -> NDArray[np.float64]:
    """Return 0 for two answers that are the same and 1 for others, shape (answers, answers)."""
    distances = np.array([[float(not same(a, b)) for b in answers] for a in answers])
    np.fill_diagonal(distances, 0.0)
    return distances


def squared_distances(embeddings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |e_i - e_j|^2 for embeddings of shape (replies, dim)."""
    differences = embeddings[:, None, :] - embeddings[None, :, :]
    found: NDArray[np.float64] = (differences**2).sum(axis=2)
    return found


def diffs(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return diff_i of every reply from squared distances, both over pairs of two others; zeros for fewer than three.

    Args:
        distances: shape (replies, replies), symmetric with a zero diagonal.
    """
    count = len(distances)
    if count < 3:
        return np.zeros(count)
    to_others = distances.sum(axis=1)
    among_others = distances.sum() / 2 - to_others
    pairs = (count - 1) * (count - 2) / 2
    # Each of the count - 1 distances to another reply stands in count - 2 pairs.
    found: NDArray[np.float64] = ((count - 2) * to_others - among_others) / (2 * pairs)
    return found


def closest(distances: NDArray[np.float64]) -> int:
    """Return the place of the largest theta; ties go to the first.

    theta falls as diff grows. An estimate of diff that is zero or negative, which only sampling error can make it, is
    the best there is.
    """
    return int(diffs(distances).argmin())
