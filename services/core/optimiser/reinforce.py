"""REINFORCE on the linear head (paper, sections 4.8 and A.2; Williams 1992).

A generation is one batch and one step of Adam. An episode counts by its reward minus a baseline, the same for each of
its turns and divided by their number, as in the authors' code. Everything is summed without BLAS, whose result depends
on the number of its threads: a learner that continues elsewhere on a machine of the same kind has the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import HeadKind, Output
from services.core.errors import SpecError
from services.core.learners import Baseline, ReinforceSpec
from services.core.optimiser.adam import Adam
from services.core.optimiser.batch import Batch
from services.core.optimiser.ports import Learner
from services.core.optimiser.vectors import first_mean
from services.core.policy.layout import Layout

Float64 = NDArray[np.float64]


class Reinforce(Learner):
    """One vector, the policy's, that every generation improves by one step."""

    def __init__(self, seed: int, layout: Layout, settings: ReinforceSpec, start: Float64 | None = None) -> None:
        """Start to learn.

        Args:
            seed: the campaign's; decides the first weights where ``settings.spread`` is above 0.
            layout: of a linear head whose output is drawn, without singular values.
            settings: see there.
            start: first parameters, shape (n,), finite; None for weights from N(0, spread^2).

        Raises:
            SpecError: another head, output or singular values.
            ValueError: the start does not fit.
        """
        for path, got, wanted in unsuited(layout):
            raise SpecError(path, got, wanted)
        drawn = settings.spread * seeds.generator(seed, "reinforce", "start").standard_normal(layout.size)
        self._layout = layout
        self._settings = settings
        self._mean = first_mean(drawn if start is None else start, layout.size)
        self._adam = Adam(layout.size, settings.rate)

    @property
    def dimension(self) -> int:
        return self._layout.size

    @property
    def population(self) -> int:
        return 1

    @property
    def generation(self) -> int:
        return self._adam.steps

    @property
    def mean(self) -> Float64:
        return self._mean.copy()

    @property
    def sigma(self) -> float:
        return self._settings.rate

    @property
    def memory(self) -> Float64:
        """What it remembers beyond its mean: Adam's moments, shape (2 n,); a copy."""
        return self._adam.memory

    def ask(self) -> Float64:
        return self._mean[np.newaxis].copy()

    def tell_batch(self, batch: Batch) -> None:
        """Learn from a generation's decisions, which nobody needs afterwards.

        Raises:
            ValueError: the batch has other states or choices than the layout; the learner is as it was before.
        """
        weights = self._mean.reshape(self._layout.rows, self._layout.hidden)
        slope = clipped(gradient(weights, self._layout, batch, self._settings), self._settings.clip)
        self._mean = self._mean + self._adam.change(slope.ravel())

    def restore(self, generation: int, mean: Float64, memory: Float64) -> None:
        """Go on from where a learner stood that had been told so many generations.

        Raises:
            ValueError: a shape does not fit, or a number is not finite; the learner is as it was before.
        """
        mean, memory = first_mean(mean, self.dimension), first_mean(memory, 2 * self.dimension)
        self._adam.restore(generation, memory)
        self._mean = mean

    def checksum(self) -> str:
        digest = hashlib.sha256(f"reinforce 1|{self.generation}|{self.dimension}|".encode())
        digest.update(self._mean.astype("<f8").tobytes())
        digest.update(self.memory.astype("<f8").tobytes())
        return digest.hexdigest()


def unsuited(layout: Layout) -> Iterator[tuple[str, object, str]]:
    """Yield path, value and what is wanted where the policy's gradient is not (e_a - pi) h^T."""
    beside = "beside search.algorithm reinforce"
    if layout.spec.kind is not HeadKind.LINEAR:
        yield "head.kind", str(layout.spec.kind), f"linear {beside}"
    if layout.spec.output is not Output.SOFTMAX:
        yield "head.output", str(layout.spec.output), f"softmax {beside}: what is not drawn has no gradient"
    if layout.svf:
        names = [matrix.name for matrix in layout.matrices]
        yield "encoder.singular_values", names, f"none {beside}: only the head is learnt"


def gradient(weights: Float64, layout: Layout, batch: Batch, settings: ReinforceSpec) -> Float64:
    """Return the gradient of what a step improves, shape (rows, d).

    That is the mean over episodes of the mean over their turns of
    (reward - baseline) x log pi(agent, role | h) + entropy x (H(agents) + H(roles)),
    minus weight_decay / 2 x the squared length of the weights. A role that the policy did not choose has neither term.

    Args:
        weights: shape (rows, d).
        layout: of the weights.
        batch: the decisions.
        settings: the weights of the terms.

    Raises:
        ValueError: the batch has states of another width, or choices that the layout does not have.
    """
    count, roles = len(layout.agents), layout.role_rows
    _require_fit(batch, layout)
    states = batch.states.astype(np.float64)
    logits = np.einsum("kd,rd->kr", states, weights, optimize=False)
    share = (1 / (len(batch.rewards) * batch.turns))[batch.episodes]
    credit = share * advantages(batch, settings.baseline)[batch.episodes]
    pull = np.zeros_like(logits)
    pull[:, :count] = _pull(logits[:, :count], batch.agents, credit, share * settings.entropy)
    if roles:
        own = batch.roles >= 0
        pull[own, count:] = _pull(logits[own, count:], batch.roles[own], credit[own], share[own] * settings.entropy)
    found: Float64 = np.einsum("kr,kd->rd", pull, states, optimize=False) - settings.weight_decay * weights
    return found


def advantages(batch: Batch, baseline: Baseline) -> Float64:
    """Return each episode's reward minus its baseline, shape (episodes,).

    An episode never stands in its own baseline: with E episodes that only stretches the differences to their common
    mean by E / (E - 1), and keeps the gradient unbiased.
    """
    whole = _minus_others(batch.rewards, np.zeros(len(batch.rewards), dtype=np.intp))
    if baseline is Baseline.BATCH:
        return whole
    _, group = np.unique(batch.problems, return_inverse=True)
    alone = np.bincount(group)[group] == 1
    return np.where(alone, whole, _minus_others(batch.rewards, group))


def clipped(slope: Float64, longest: float | None) -> Float64:
    """Return the gradient, shortened to ``longest`` where it is longer."""
    length = float(np.sqrt(np.sum(slope**2)))
    return slope if longest is None or length <= longest else slope * (longest / length)


def _minus_others(rewards: Float64, group: NDArray[np.intp]) -> Float64:
    """Return each reward minus the mean of the others in its group; 0 where there is no other."""
    sums, sizes = np.bincount(group, rewards), np.bincount(group)
    others = np.maximum(sizes - 1, 1)[group]
    found: Float64 = np.where(sizes[group] > 1, rewards - (sums[group] - rewards) / others, 0.0)
    return found


def _pull(logits: Float64, chosen: NDArray[np.intp], credit: Float64, entropy: Float64) -> Float64:
    """Return the gradient by one softmax's logits, shape (decisions, rows)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    policy = np.exp(logs)
    surprise = -logs - (policy * -logs).sum(axis=1, keepdims=True)
    found: Float64 = entropy[:, np.newaxis] * policy * surprise - credit[:, np.newaxis] * policy
    found[np.arange(len(chosen)), chosen] += credit
    return found


def _require_fit(batch: Batch, layout: Layout) -> None:
    agents, roles = batch.agents, batch.roles
    fits = (agents >= 0).all() and (agents < len(layout.agents)).all()
    fits = fits and (roles >= -1).all() and (roles < max(layout.role_rows, 1)).all()
    if batch.states.shape[1] != layout.hidden or not fits:
        raise ValueError(
            f"got states of width {batch.states.shape[1]}, agents {sorted({*agents.tolist()})}, roles "
            f"{sorted({*roles.tolist()})}; wanted width {layout.hidden}, {len(layout.agents)} agents, "
            f"{layout.role_rows} roles"
        )
