"""A fitted router as a policy; to be played with ``episode.single_turn``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.core.baselines.router import Router
from services.core.policy.policies import Encode
from services.core.protocol.ports import Decision
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript


class RoutedPolicy:
    """The model that the router names for the question works on it alone."""

    def __init__(self, router: Router, encode: Encode, offsets: NDArray[np.float32]) -> None:
        """Take the router and what reads questions for it.

        Args:
            router: fitted to states that were read in the same way.
            encode: (transcript, singular-value offsets of shape (svf,)) -> state (d,).
            offsets: those with which the states were read that the router is fitted to.
        """
        self._router = router
        self._encode = encode
        self._offsets = offsets

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        return Decision(self._router.agent(self._encode(transcript, self._offsets), rng), Role.WORKER)
