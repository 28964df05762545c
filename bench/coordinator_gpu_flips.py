"""How often bfloat16 changes a decision: the same conversations, candidates and random numbers in both formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import HeadSpec, Matrix, Output
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.protocol.roles import ROLE_ORDER
from services.core.protocol.transcript import Transcript
from services.core.statistics.intervals import wilson
from services.encoder.reader import Chain, Reader, Stores
from services.encoder.singular_values import SingularValues, bases_of
from services.encoder.slm import SmallLanguageModel

AGENTS = 7
STARTING, TRAINED = 0.03, 0.0975  # standard deviation of theta: the search's first, and that of the released vector
CANDIDATES, BATCH = 8, 16

State = NDArray[np.float32]


def flips(
    folder: Path, device: str, matrices: Sequence[Matrix], chains: Sequence[Chain], decisions: int
) -> list[dict[str, Any]]:
    """Return rates of changed decisions, of at least ``decisions`` each, with Wilson's 95 % interval.

    Every decision has a head of its own; of each conversation, ``CANDIDATES`` choices of singular values are read.
    """
    rows = []
    for deviation in (STARTING, TRAINED):
        exact, rough = (
            _states(folder, device, dtype, matrices, chains, deviation) for dtype in ("float32", "bfloat16")
        )
        heads = -(-decisions // len(exact))
        errors = [np.linalg.norm(one - two) / np.linalg.norm(one) for one, two in zip(exact, rough, strict=True)]
        for output in (Output.SOFTMAX, Output.ARGMAX):
            layout = Layout(tuple(range(AGENTS)), ROLE_ORDER, exact[0].size, (), HeadSpec(output=output))
            pairs = zip(
                _decided(exact, layout, deviation, heads), _decided(rough, layout, deviation, heads), strict=True
            )
            changed = sum(one != two for one, two in pairs)
            rate = wilson(changed, heads * len(exact))
            rows.append(
                {
                    "deviation": deviation,
                    "output": "sampled" if output is Output.SOFTMAX else "argmax",
                    "decisions": heads * len(exact),
                    "changed": changed,
                    "rate": round(rate.estimate, 5),
                    "low": round(rate.low, 5),
                    "high": round(rate.high, 5),
                    "median_state_error": round(float(np.median(errors)), 5),
                }
            )
    return rows


def _decided(states: Sequence[State], layout: Layout, deviation: float, heads: int) -> Iterator[tuple[int, str]]:
    """Yield agent and role of each state under each of its heads; the same for the same arguments."""
    for number, state in enumerate(states):
        for head in range(heads):
            rng = np.random.default_rng((number, head))
            theta = rng.normal(0, deviation, layout.size)
            choice = HeadPolicy(theta, layout, partial(_given, state)).decide(Transcript(""), rng)
            yield choice.agent, str(choice.role)


def _given(state: State, transcript: Transcript, offsets: State) -> State:
    return state


def _states(
    folder: Path, device: str, dtype: str, matrices: Sequence[Matrix], chains: Sequence[Chain], deviation: float
) -> list[State]:
    """Return the states of all conversations for all candidates, read side by side."""
    decoder = SmallLanguageModel.load(folder, str(folder), device, dtype).decoder
    assert decoder is not None
    values = SingularValues(decoder, matrices, bases_of(decoder, matrices, folder / "bases")) if matrices else None
    reader = Reader(decoder, values, Stores(8 << 30), dtype.encode())
    rng = np.random.default_rng(5)
    size = sum(matrix.size for matrix in matrices)
    offsets = rng.normal(0, deviation, (CANDIDATES if matrices else 1, size)).astype(np.float32)
    asked = [reader.request(chain, one) for one in offsets for chain in chains]
    parts = [reader.states(asked[start : start + BATCH]) for start in range(0, len(asked), BATCH)]
    return [state for part in parts for state in part]
