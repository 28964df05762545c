"""The policies a campaign compares: the trained head, one model on its own, and chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.policy.head import head_logits
from services.core.policy.layout import Layout
from services.core.policy.selection import Choice, select
from services.core.protocol.ports import Decision
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript


class HeadPolicy:
    """Encodes the conversation, applies the head, draws agent and role."""

    def __init__(
        self,
        theta: NDArray[Any],
        layout: Layout,
        encode: Callable[[Transcript], NDArray[np.float32]],
        choice: Choice = Choice.SAMPLE,
    ) -> None:
        """Take the candidate's vector (n,), its layout and the encoder: transcript -> state (d,).

        Raises:
            LayoutMismatch: theta does not fit the layout.
        """
        self._weights = layout.head(np.asarray(theta, dtype=np.float32)).astype(np.float64)
        self._layout = layout
        self._encode = encode
        self._choice = choice

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        logits = head_logits(self._weights, self._encode(transcript))
        agent, role = select(logits, self._layout, rng, self._choice)
        return Decision(agent, role, tuple(float(value) for value in logits))


class SinglePolicy:
    """One pool model as the Worker, always; to be played with ``episode.single_turn``."""

    def __init__(self, agent: int) -> None:
        self._agent = agent

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        return Decision(self._agent, Role.WORKER)


class RandomPolicy:
    """Agent and role uniform at every turn: the head with all weights zero."""

    def __init__(self, pool_size: int, roles: Sequence[Role]) -> None:
        self._layout = Layout.of(pool_size, roles, hidden=1)
        self._logits = np.zeros(self._layout.rows)

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        agent, role = select(self._logits, self._layout, rng)
        return Decision(agent, role)
