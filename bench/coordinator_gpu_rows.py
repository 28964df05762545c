"""Decisions a second on one device: the product's whole path, and whole forward passes of transformers' own module."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel

from bench.coordinator_gpu_ceilings import Demand, demand, median_seconds, wait
from bench.coordinator_talks import WORDS, talk
from services.core.campaign import Matrix
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.coordinator import Encoder
from services.encoder.reader import Chain
from services.encoder.slm import precision

AGENTS = 7
MOST_CANDIDATES = 32


@dataclass(frozen=True)
class Row:
    """Seconds of one decision when ``waiting`` are asked for at once.

    Attributes:
        read, known: tokens that a decision of the last round read, and that were read before, on average.
        demand: of a decision of the last round, on average.
    """

    waiting: int
    tokens: int
    turn: int
    seconds: float
    read: float
    known: float
    demand: Demand


class Talks:
    """Conversations of about ``tokens`` tokens a turn, never the same twice; lengths vary as words do."""

    _seeds: Iterator[int] = count(1000)

    def __init__(self, encoder: Encoder, tokens: int) -> None:
        self._words = len(talk(encoder, 0, 1, tokens)[0].query.split()) - 1
        # A later turn has the instruction behind it already, so all its tokens are the new item's.
        self._later = talk(encoder, 0, 2, tokens)[-1].items[0].text.count(" ") + 1

    def fresh(self) -> list[Transcript]:
        """Return a new conversation as it stands at its first and at its second decision."""
        seed = next(self._seeds)
        words = np.random.default_rng(seed).choice(WORDS, self._words + self._later).tolist()
        first = Transcript(f"{seed}: " + " ".join(words[: self._words]))
        text = " ".join(words[self._words :])
        return [first, first.with_item(Item(1, 0, Role.THINKER, RoleSource.POLICY, text, text))]


class Asking:
    """Candidates that decide at the same time, each decision on a thread of its own as in a worker."""

    def __init__(self, encoder: Encoder, matrices: Sequence[Matrix], waiting: int) -> None:
        layout = Layout(tuple(range(AGENTS)), ROLE_ORDER, encoder.hidden_size, tuple(matrices))
        thetas = np.random.default_rng(2).normal(0, 0.03, (min(waiting, MOST_CANDIDATES), layout.size))
        self._policies = [HeadPolicy(theta, layout, encoder.encode) for theta in thetas]
        self._threads = ThreadPoolExecutor(waiting)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def seconds(self, asked: Sequence[Transcript]) -> float:
        """Return how long all these decisions take. Each ends with its state in main memory, so the device is done."""
        begun = time.perf_counter()
        list(self._threads.map(self._decide, range(len(asked)), asked))
        return time.perf_counter() - begun

    def _decide(self, number: int, transcript: Transcript) -> None:
        self._policies[number % len(self._policies)].decide(transcript, np.random.default_rng(number))


def product(
    encoder: Encoder, matrices: Sequence[Matrix], config: Any, device: str, waiting: int, tokens: int, seconds: float
) -> Iterator[Row]:
    """Yield the rows of first and second turns; medians of rounds, the first of which is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    talks = Talks(encoder, tokens)
    with Asking(encoder, matrices, waiting) as asking:
        while len(times[0]) < 4 or (len(times[0]) < 8 and sum(times[0]) + sum(times[1]) < 2 * seconds):
            asked = [talks.fresh() for _ in range(waiting)]
            for turn in (0, 1):
                times[turn].append(asking.seconds([one[turn] for one in asked]))
    company = waiting if device != "cpu" else 1
    number_bytes = getattr(torch, precision(device)).itemsize
    for turn in (0, 1):
        lengths = [_new_and_known(encoder.chain(one[turn])) for one in asked]
        demands = [demand(config, new, known, company, number_bytes) for new, known in lengths]
        average = Demand(statistics.mean(one.flops for one in demands), statistics.mean(one.bytes for one in demands))
        read, known = (statistics.mean(column) for column in zip(*lengths, strict=True))
        yield Row(waiting, tokens, turn + 1, statistics.median(times[turn][1:]) / waiting, read, known, average)


def _new_and_known(chain: Chain) -> tuple[int, int]:
    """Return a pass's tokens, and those before that were read already: at the first turn the common instruction's."""
    before, ids = chain[-2], chain[-1]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, ids, strict=False)))
    known = min(same, len(ids) - 1)
    return len(ids) - known, known


def naive(
    folder: Path, encoder: Encoder, device: str, waiting: int, tokens: int, seconds: float
) -> Callable[[int], tuple[float, float]]:
    """Return what gives, for a turn, the seconds a decision of whole passes: alone, and in one padded batch.

    The conversations are tokenised beforehand, and a candidate's weights cost nothing here.
    """
    module = AutoModel.from_pretrained(folder, dtype=getattr(torch, precision(device))).to(device).eval()
    talks = Talks(encoder, tokens)
    asked = [talks.fresh() for _ in range(waiting)]

    def alone(ids: Sequence[Sequence[int]]) -> None:
        for one in ids:
            _last(module, torch.tensor([one], device=device), None)

    def together(ids: Sequence[Sequence[int]]) -> None:
        longest = max(len(one) for one in ids)
        padded = torch.tensor([[*one, *[0] * (longest - len(one))] for one in ids], device=device)
        mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids], device=device)
        _last(module, padded, mask)

    def measured(turn: int) -> tuple[float, float]:
        ids = [encoder.chain(one[turn])[-1] for one in asked]
        few = ids[:4]
        wait(device)
        single = median_seconds(lambda: alone(few), device, most=8, seconds=seconds) / len(few)
        if waiting == 1:
            return single, single
        return single, median_seconds(lambda: together(ids), device, most=8, seconds=seconds) / waiting

    return measured


@torch.inference_mode()
def _last(module: Any, ids: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Read whole conversations, and fetch the last tokens' states as a decision needs them."""
    states = module(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    ends = torch.full((len(ids),), ids.shape[1] - 1) if mask is None else mask.sum(1).cpu() - 1
    states[torch.arange(len(ids)), ends].float().cpu()
