"""Reading with models whose layers we do not run one by one: each conversation whole, in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.encoder.reader import ALL, Chain, Request, State
from services.encoder.slm import SmallLanguageModel


class WholeReader:
    """Has ``Reader``'s methods, for models that no candidate changes."""

    shared = True

    def __init__(self, language_model: SmallLanguageModel, prefix: bytes) -> None:
        self._language_model = language_model
        self._prefix = prefix

    def request(self, chain: Chain, offsets: NDArray[np.float32]) -> Request:
        return Request(chain, offsets, ALL)

    def key(self, request: Request) -> bytes:
        return hashlib.sha256(self._prefix + np.asarray(request.chain[-1], dtype="<i4").tobytes()).digest()

    def state(self, request: Request) -> State:
        return self._language_model.state(request.chain[-1])

    def states(self, requests: Sequence[Request]) -> list[State]:
        return [self.state(request) for request in requests]
