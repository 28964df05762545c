"""States of questions and conversations, read by the campaign's own encoder through its cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.problem import Problem
from services.core.protocol.ports import StateEncoder
from services.core.protocol.transcript import Transcript

SHOWN_EVERY = 200


def states_of(
    encoder: StateEncoder,
    transcripts: Sequence[Transcript],
    offsets: NDArray[np.float32],
    announce: Callable[[str], None],
    parallel: int = 4,
) -> NDArray[np.float64]:
    """Return the states, shape (transcripts, d), float64; equal conversations are read once."""
    distinct = list(dict.fromkeys(transcripts))
    found: dict[Transcript, NDArray[np.float32]] = {}
    with ThreadPoolExecutor(parallel) as threads:
        for transcript, state in zip(
            distinct, threads.map(lambda each: encoder.encode(each, offsets), distinct), strict=True
        ):
            found[transcript] = state
            if len(found) % SHOWN_EVERY == 0:
                announce(f"read {len(found):,} of {len(distinct):,} conversations")
    states = np.zeros((len(transcripts), encoder.hidden_size))
    for at, transcript in enumerate(transcripts):
        states[at] = found[transcript]
    return states


def chosen(problems: Sequence[Problem], limit: int, seed: int) -> list[Problem]:
    """Return at most ``limit`` problems in their order, the families in turn, so that rare ones are not lost."""
    order = seeds.generator(seed, "diagnosed problems").permutation(len(problems))
    rank: dict[str, int] = {}
    places = []
    for at in order.tolist():
        family = problems[at].family
        rank[family] = rank.get(family, -1) + 1
        places.append((rank[family], at))
    return [problems[at] for at in sorted(at for _, at in sorted(places)[:limit])]
