"""What the coordinator's language model reads of every conversation of a tree.

Conversations of equal length in turns are read side by side in bfloat16, as a worker does on a GPU: on a CPU that
computes in this format it takes a sixth of the time of float32. States are kept in a file of the product's own kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.comparison_tree import texts
from services.core.campaign import EncoderSpec, Norm
from services.core.protocol.transcript import Transcript
from services.encoder.catalogue import architecture
from services.encoder.chat import ChatTokenizer
from services.encoder.reader import Chain, Reader, Stores
from services.encoder.reading import Reading
from services.encoder.reference import QUESTIONS
from services.encoder.slm import CPU_MEMORY, POSITIONS, SmallLanguageModel, limit_threads
from services.encoder.state_cache import StateFile
from services.encoder.weights import obtain, weights_digest

PRECISION = "bfloat16"
SIMILAR = 30  # characters: shorter conversations are filled up to the longest beside them

States = NDArray[np.float32]
_UNCHANGED: States = np.zeros(0, dtype=np.float32)


class StateReader:
    """Reads conversations for one campaign on one core; its model is loaded when the file lacks a state."""

    def __init__(self, spec: EncoderSpec, agents: int, models: Path, file: Path) -> None:
        folder = obtain(spec.model, spec.revision, models)
        self._spec, self._folder, self._agents = spec, folder, agents
        kind = f"{weights_digest(folder, spec.model)} {PRECISION} {agents} {spec.position} {spec.item_tokens}"
        self._kind = f"{kind} {spec.max_tokens}".encode()
        self._file = StateFile(file)
        self._reader: Reader | None = None

    def states(self, transcripts: Sequence[Transcript]) -> States:
        """Return the states of a question's conversations as the head gets them, shape (conversations, d)."""
        if not transcripts:
            return np.zeros((0, architecture(self._spec.model).hidden), dtype=np.float32)
        states = self._raw(transcripts)
        if self._spec.center:
            states = states - self._raw([Transcript(question) for question in QUESTIONS]).mean(axis=0)
        if self._spec.norm is Norm.RMS:
            states = states / np.sqrt(np.mean(np.square(states, dtype=np.float64), axis=1, keepdims=True))
        return states.astype(np.float32)

    def close(self) -> None:
        self._file.close()

    def _raw(self, transcripts: Sequence[Transcript]) -> States:
        found = {index: self._file.get(self._key(one)) for index, one in enumerate(transcripts)}
        for level in _levels([index for index, state in found.items() if state is None], transcripts):
            for index, state in zip(level, self._read([transcripts[index] for index in level]), strict=True):
                self._file.put(self._key(transcripts[index]), state)
                found[index] = state
        return np.stack([state for state in found.values() if state is not None])

    def _read(self, transcripts: Sequence[Transcript]) -> list[States]:
        reader = self._reader or self._loaded()
        return reader.states([reader.request(self._chain(one), _UNCHANGED) for one in transcripts])

    def _loaded(self) -> Reader:
        limit_threads(1)
        model = SmallLanguageModel.load(self._folder, self._spec.model, dtype=PRECISION)
        if model.decoder is None:
            raise ValueError(f"{self._spec.model} cannot be read turn by turn")
        chat = ChatTokenizer.load(self._folder, self._spec.model)
        self._reading = Reading(chat, self._agents, self._spec.max_tokens, self._spec.item_tokens)
        self._reader = Reader(model.decoder, None, Stores(CPU_MEMORY), self._kind)
        return self._reader

    def _chain(self, transcript: Transcript) -> Chain:
        """Return what ``Encoder.chain`` does."""
        ends = POSITIONS[self._spec.position] + 1
        turns = (Transcript(transcript.query, transcript.items[:count]) for count in range(_turns(transcript) + 1))
        read = (self._reading.token_ids(step) for step in (Transcript(""), *turns))
        return tuple(ids[: len(ids) + ends] for ids in read)

    def _key(self, transcript: Transcript) -> bytes:
        return hashlib.sha256(self._kind + repr((transcript.query, texts(transcript))).encode()).digest()


def _turns(transcript: Transcript) -> int:
    return len(transcript.items)


def _levels(missing: Sequence[int], transcripts: Sequence[Transcript]) -> list[list[int]]:
    """Return parts of as many turns and of similar length, shorter conversations before those that go on from them."""

    def size(index: int) -> tuple[int, int]:
        items = transcripts[index].items
        return len(items), sum(len(item.text) + len(item.answer or "") for item in items)

    parts: list[list[int]] = []
    for index in sorted(missing, key=size):
        turns, length = size(index)
        first = size(parts[-1][0]) if parts else (-1, 0)
        if first[0] == turns and length <= first[1] + SIMILAR:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts
