"""A fitted router as a policy; to be played with ``episode.single_turn``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.router import Router
from services.core.protocol.ports import Decision
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript

# A question -> its state, shape (d,), read as the labelled questions were that the router is fitted to.
Read = Callable[[str], NDArray[np.float32]]


class RoutedPolicy:
    """The model that the router names for the question works on it alone."""

    def __init__(self, router: Router, read: Read, agents: Sequence[int]) -> None:
        """Take the router, what reads questions for it, and the pool indices of the models that it chooses among."""
        self._router = router
        self._read = read
        self._agents = agents

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        return Decision(self._agents[self._router.agent(self._read(transcript.query), rng)], Role.WORKER)
