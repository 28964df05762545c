"""The heads of the paper's Table 6 (appendix A.4), each with its number of parameters for d = 1024 and ten logits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import assert_never

import numpy as np

from services.core.campaign import HeadKind, HeadSpec
from services.core.errors import SpecError
from services.core.policy.head import Float64, Head
from services.core.policy.sparsity import hard_mask, kept, training_mask

LOW_RANK_SCALE = 3.0  # sigma of equation 7: the paper calls it fixed without a number, the authors' code has this one
ELU_ALPHA = 0.1


def head_of(spec: HeadSpec, rows: int, hidden: int) -> Head:
    """Return the head for ``rows`` logits and states of width ``hidden``.

    Raises:
        SpecError: a rank below 1, or a block-diagonal head with more logits than inputs.
    """
    match spec.kind:
        case HeadKind.LINEAR:
            return LinearHead(rows, hidden)
        case HeadKind.LOW_RANK:
            return LowRankHead(rows, hidden, max(8, 2 * rows) if spec.rank is None else spec.rank)
        case HeadKind.SPARSE:
            return SparseHead(rows, hidden)
        case HeadKind.BLOCK_DIAGONAL_2:
            return BlockDiagonalHead(rows, hidden, halves(rows, hidden))
        case HeadKind.BLOCK_DIAGONAL_10:
            return BlockDiagonalHead(rows, hidden, singles(rows, hidden))
    assert_never(spec.kind)


class LinearHead(Head):
    """z = W h, without bias (equation 5): 10,240 parameters."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weights": (self.rows, self.hidden)}

    def _apply(self, parts: Mapping[str, Float64], state: Float64, rng: np.random.Generator | None) -> Float64:
        logits: Float64 = parts["weights"] @ state
        return logits


class LowRankHead(Head):
    """z = sigma V ELU(U h) with a fixed sigma (equations 6 and 7): 20,680 parameters at rank 20.

    Rank 20 = max(8, 2 n_a) is that of Table 6 and of the authors' code; the text of the appendix says 14.
    """

    def __init__(self, rows: int, hidden: int, rank: int) -> None:
        super().__init__(rows, hidden)
        if rank < 1:
            raise SpecError("head.rank", rank, "at least 1")
        self.rank = rank

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"down": (self.rank, self.hidden), "up": (self.rows, self.rank)}

    def start(self, rng: np.random.Generator) -> Float64:
        """Return the Glorot point of equation 8.

        At zero both factors vanish, so that to first order no change of either changes a logit, and a search has
        nothing to follow.
        """
        down, up = math.sqrt(6 / (self.hidden + self.rank)), math.sqrt(18 / (self.rank + self.rows))
        return np.concatenate(
            [rng.uniform(-down, down, self.rank * self.hidden), rng.uniform(-up, up, self.rows * self.rank)]
        )

    def _apply(self, parts: Mapping[str, Float64], state: Float64, rng: np.random.Generator | None) -> Float64:
        logits: Float64 = LOW_RANK_SCALE * (parts["up"] @ elu(parts["down"] @ state))
        return logits


class SparseHead(Head):
    """z = W (h * alpha) with a learnt mask alpha (equation 9): 11,266 parameters.

    They are W, the importance scores s, the sparsity rho and the temperature tau, in this order.
    """

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weights": (self.rows, self.hidden), "scores": (self.hidden,), "sparsity": (1,), "temperature": (1,)}

    def _apply(self, parts: Mapping[str, Float64], state: Float64, rng: np.random.Generator | None) -> Float64:
        count = kept(float(parts["sparsity"][0]), self.hidden)
        if rng is None:
            mask = hard_mask(parts["scores"], count)
        else:
            # A child's numbers follow from the episode's seed and from how many decisions drew noise before.
            (child,) = rng.spawn(1)
            mask = training_mask(parts["scores"], count, float(parts["temperature"][0]), child)
        logits: Float64 = parts["weights"] @ (state * mask)
        return logits


class BlockDiagonalHead(Head):
    """Blocks of logits that each read a slice of the state of their own (equation 12): 5,120 or 1,024 parameters."""

    def __init__(self, rows: int, hidden: int, partition: tuple[tuple[int, int], ...]) -> None:
        super().__init__(rows, hidden)
        if hidden < rows:
            wanted = f"another head, or an encoder with at least {rows} hidden units: every logit needs an input"
            raise SpecError("head.kind", f"blocks for {rows} logits over {hidden} hidden units", wanted)
        self._partition = partition
        self._bounds = list(accumulate((inputs for _, inputs in partition), initial=0))

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {f"block_{number}": shape for number, shape in enumerate(self._partition)}

    def _apply(self, parts: Mapping[str, Float64], state: Float64, rng: np.random.Generator | None) -> Float64:
        slices = [state[begin:end] for begin, end in pairwise(self._bounds)]
        return np.concatenate([weights @ part for weights, part in zip(parts.values(), slices, strict=True)])


def halves(rows: int, hidden: int) -> tuple[tuple[int, int], ...]:
    """Return (logits, inputs) of two blocks, the first with the odd logit and inputs in proportion; one for one row."""
    first = math.ceil(rows / 2)
    inputs = first * hidden // rows
    return tuple(block for block in ((first, inputs), (rows - first, hidden - inputs)) if block[0])


def singles(rows: int, hidden: int) -> tuple[tuple[int, int], ...]:
    """Return (1, inputs) of one block per logit, the first ones with the inputs that are left over."""
    return tuple((1, hidden // rows + (row < hidden % rows)) for row in range(rows))


def elu(values: Float64) -> Float64:
    """Return x where it is at least 0 and alpha (exp(x) - 1) elsewhere (equation 6)."""
    return np.where(values >= 0, values, ELU_ALPHA * np.expm1(np.minimum(values, 0.0)))
