"""From token ids to the state, paying for what is new alone.

The layers fall into two spans. The lower one is what no candidate changes: its outputs belong to a conversation and
serve all candidates and replicates. The upper one begins with the first layer that a candidate changes and is read for
each candidate; without singular values it is the whole model, and belongs to the conversation too.

Both spans go on from the keys and values of the turn before. Where passes are cut is decided by the conversation alone:
by its chain, the token ids after each turn. When every link is read in a pass of its own and what is forgotten is read
again by the same passes, then a state's bits never depend on what happens to be remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.core.errors import SpecError
from services.encoder.decoder import Change, Decoder, Layers, Piece
from services.encoder.flights import Flights
from services.encoder.memories import Memories
from services.encoder.singular_values import SingularValues

State = NDArray[np.float32]
Chain = tuple[tuple[int, ...], ...]  # token ids of an empty conversation, of the question, and after each turn

_Asked = tuple[Chain, bytes, Change | None]  # a conversation, the name of its candidate's offsets, and its weights

ALL = b""  # stands for every candidate, where none changes anything


@dataclass(frozen=True)
class Output:
    """States above the lower span, (tokens, d)."""

    states: Tensor

    @property
    def size(self) -> int:
        return self.states.nbytes


@dataclass(frozen=True)
class Past:
    """Keys and values of one span for all tokens of a conversation."""

    token_ids: tuple[int, ...]
    layers: Layers

    @property
    def size(self) -> int:
        return self.layers.nbytes


@dataclass(frozen=True)
class Weights:
    """A candidate's weights."""

    change: Change

    @property
    def size(self) -> int:
        return sum(weight.nbytes for weight in self.change.weights.values())


class Stores:
    """What the readers of one process remember, within one bound."""

    def __init__(self, max_bytes: int) -> None:
        """Outputs are small and serve whole campaigns, so the large keys and values may not push them out."""
        self.outputs: Memories[Output] = Memories(max_bytes // 4)
        self.pasts: Memories[Past] = Memories(max_bytes // 2)
        self.weights: Memories[Weights] = Memories(max_bytes // 4)
        self.by_name: Mapping[str, Memories[Any]] = {
            "outputs": self.outputs,
            "keys_and_values": self.pasts,
            "weights": self.weights,
        }


@dataclass(frozen=True)
class Request:
    """One state that is wanted: of a conversation, for a candidate (``candidate`` names its offsets)."""

    chain: Chain
    offsets: NDArray[np.float32]
    candidate: bytes


@dataclass(frozen=True)
class _Span:
    first: int
    last: int


@dataclass(frozen=True)
class _Base:
    """What a pass goes on from: an earlier part of the same conversation."""

    chain: Chain
    past: Past


@dataclass(frozen=True)
class _Job:
    """A conversation that one pass of a span reads: its tokens from ``known`` on, which ``base`` has."""

    chain: Chain
    candidate: bytes
    base: Chain
    known: int
    piece: Piece


class Reader:
    """Reads conversations with one model and one choice of matrices. Safe to use from many threads."""

    def __init__(self, decoder: Decoder, values: SingularValues | None, stores: Stores, prefix: bytes) -> None:
        """Take the model, what candidates change in it, where to remember, and what names both in keys."""
        split = values.first if values else decoder.layers
        self.shared = split == decoder.layers  # no candidate changes anything
        self._lower = None if split in (0, decoder.layers) else _Span(0, split)
        self._upper = _Span(0 if self._lower is None else split, decoder.layers)
        self._decoder, self._values, self._stores, self._prefix = decoder, values, stores, prefix
        self._reading_past: Flights[Past] = Flights()
        self._reading_output: Flights[Output] = Flights()
        self._changing: Flights[Weights] = Flights()

    def request(self, chain: Chain, offsets: NDArray[np.float32]) -> Request:
        return Request(chain, offsets, ALL if self.shared else hashlib.sha256(offsets.astype("<f4").tobytes()).digest())

    def key(self, request: Request) -> bytes:
        """Return what names the state: equal keys are equal states."""
        return self._key(self._upper, request.chain, request.candidate)

    def state(self, request: Request) -> State:
        """Return one state, each link of its chain read alone in a pass of its own.

        Raises:
            SpecError: the state is not finite, so the weights do not work in this precision.
        """
        job = self._next(self._upper, request.chain, request.candidate, self._change(request))
        return self._finished(self._run(self._upper, [job]))[0]

    def states(self, requests: Sequence[Request]) -> list[State]:
        """Return many states from passes side by side, going on from what is remembered; bits depend on the company.

        Raises:
            SpecError: as ``state``.
        """
        if self._lower is not None:
            missing = {request.chain: None for request in requests if not self._remembered(request.chain)}
            self._side_by_side(self._lower, [(chain, ALL, None) for chain in missing])
        asked = [(request.chain, request.candidate, self._change(request)) for request in requests]
        return self._finished(self._side_by_side(self._upper, asked))

    def _side_by_side(self, span: _Span, asked: Sequence[_Asked]) -> list[tuple[Tensor, Past]]:
        """Read conversations, each from its longest remembered part on; what new ones begin with is read first."""
        bases = [self._nearest(span, chain, candidate) for chain, candidate, _ in asked]
        begun = {
            (chain[:1], candidate): change
            for (chain, candidate, change), base in zip(asked, bases, strict=True)
            if base is None and len(chain) > 1
        }
        firsts = [self._job(span, chain, candidate, change, None) for (chain, candidate), change in begun.items()]
        pasts = dict(zip(begun, (past for _, past in self._run(span, firsts)), strict=True))
        jobs = []
        for (chain, candidate, change), base in zip(asked, bases, strict=True):
            first = pasts.get((chain[:1], candidate))
            begin = base or (None if first is None else _Base(chain[:1], first))
            jobs.append(self._job(span, chain, candidate, change, begin))
        return self._run(span, jobs)

    def _change(self, request: Request) -> Change | None:
        if self.shared or self._values is None:
            return None
        values, key = self._values, self._prefix + request.candidate

        def make() -> Weights:
            made = Weights(values.change(request.offsets))
            self._stores.weights.put(key, made)
            return made

        return (self._stores.weights.get(key) or self._changing.do(key, make)).change

    def _next(self, span: _Span, chain: Chain, candidate: bytes, change: Change | None) -> _Job:
        """Return the job that goes on from the conversation one turn ago, which is read first if it is forgotten."""
        before = chain[:-1]
        base = _Base(before, self._past(span, before, candidate, change)) if before else None
        return self._job(span, chain, candidate, change, base)

    def _nearest(self, span: _Span, chain: Chain, candidate: bytes) -> _Base | None:
        """Return the longest remembered part of the conversation to go on from, if there is one."""
        for length in range(len(chain) - 1, 0, -1):
            before = chain[:length]
            past = self._stores.pasts.get(self._key(span, before, candidate))
            if past is not None and (span is not self._lower or self._remembered(before)):
                return _Base(before, past)
        return None

    def _job(self, span: _Span, chain: Chain, candidate: bytes, change: Change | None, base: _Base | None) -> _Job:
        ids = chain[-1]
        known = 0 if base is None else min(_shared(base.past.token_ids, ids), len(ids) - 1)
        past = None if base is None or not known else base.past.layers[..., :known, :]
        inputs = self._token_ids(ids[known:]) if span.first == 0 else self._output(chain).states[known:]
        return _Job(chain, candidate, () if base is None else base.chain, known, Piece(inputs, past, change))

    def _past(self, span: _Span, chain: Chain, candidate: bytes, change: Change | None) -> Past:
        """Return keys and values of a conversation, remembered or read."""
        key = self._key(span, chain, candidate)
        return self._stores.pasts.get(key) or self._reading_past.do(
            key, lambda: self._run(span, [self._next(span, chain, candidate, change)])[0][1]
        )

    def _output(self, chain: Chain) -> Output:
        """Return the lower span's states of all tokens of a conversation, remembered or read."""
        lower = self._lower
        assert lower is not None
        key = self._key(lower, chain, ALL)
        return self._stores.outputs.get(key) or self._reading_output.do(
            key, lambda: Output(self._run(lower, [self._next(lower, chain, ALL, None)])[0][0])
        )

    def _remembered(self, chain: Chain) -> bool:
        """Tell whether the lower span's states of a conversation are at hand."""
        return self._lower is not None and self._stores.outputs.get(self._key(self._lower, chain, ALL)) is not None

    def _run(self, span: _Span, jobs: Sequence[_Job]) -> list[tuple[Tensor, Past]]:
        """Read the jobs side by side and remember what came out; a lower span's states are those of all tokens."""
        if not jobs:
            return []
        results = []
        outcome = self._decoder.run(span.first, span.last, [job.piece for job in jobs])
        for job, (states, layers) in zip(jobs, outcome, strict=True):
            past = Past(job.chain[-1], layers)
            key = self._key(span, job.chain, job.candidate)
            self._stores.pasts.put(key, past)
            if span is self._lower:
                if job.known:
                    states = torch.cat([self._output(job.base).states[: job.known], states])
                self._stores.outputs.put(key, Output(states))
            results.append((states, past))
        return results

    def _finished(self, results: Sequence[tuple[Tensor, Past]]) -> list[State]:
        states = [state.float().cpu().numpy().copy() for state, _ in results]
        for state in states:
            if not np.isfinite(state).all():
                raise SpecError("encoder.model", "a state that is not finite", "weights that work in this precision")
            state.flags.writeable = False
        return states

    def _token_ids(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.long, device=self._decoder.device)

    def _key(self, span: _Span, chain: Chain, candidate: bytes) -> bytes:
        digest = hashlib.sha256(self._prefix + f"{span.first}-{span.last}\n".encode() + candidate)
        for token_ids in chain:
            digest.update(f"\n{len(token_ids)}\n".encode() + np.asarray(token_ids, dtype="<i4").tobytes())
        return digest.digest()


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading entries two sequences have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
