"""The policies a campaign compares: the trained head, one model on its own, and chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import Output
from services.core.policy.layout import Layout
from services.core.policy.selection import select
from services.core.protocol.ports import Decision
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript

Encode = Callable[[Transcript, NDArray[np.float32]], NDArray[np.float32]]


class HeadPolicy:
    """Encodes the conversation, applies the head, draws agent and role."""

    def __init__(self, theta: NDArray[Any], layout: Layout, encode: Encode, *, explore: bool = False) -> None:
        """Take the candidate's vector and what reads conversations for it.

        Args:
            theta: shape (n,).
            layout: of theta.
            encode: (transcript, singular-value offsets of shape (svf,)) -> state (d,).
            explore: whether heads that draw noise in training do so (the sparse head's mask).

        Raises:
            LayoutMismatch: theta does not fit the layout.
        """
        blocks = layout.split(np.asarray(theta, dtype=np.float32))
        self._parameters = blocks["head"].astype(np.float64)
        self._offsets = blocks["svf"]
        self._layout = layout
        self._encode = encode
        self._explore = explore

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        state = self._encode(transcript, self._offsets)
        logits = self._layout.head.logits(self._parameters, state, rng if self._explore else None)
        agent, role = select(logits, self._layout, rng)
        return Decision(agent, role, tuple(float(value) for value in logits))


class SinglePolicy:
    """One pool model as the Worker, always; to be played with ``episode.single_turn``."""

    def __init__(self, agent: int) -> None:
        self._agent = agent

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        return Decision(self._agent, Role.WORKER)


class RandomPolicy:
    """Agent and role uniform at every turn: the head with all weights zero, its output drawn."""

    def __init__(self, layout: Layout) -> None:
        self._layout = replace(layout, spec=replace(layout.spec, output=Output.SOFTMAX))
        self._logits = np.zeros(self._layout.rows)

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        agent, role = select(self._logits, self._layout, rng)
        return Decision(agent, role)
