"""One reader of conversations for all threads of a worker: each state is computed once, on few threads.

A conversation is read turn by turn: the pass of a turn goes on from the memory of the turn before and pays for the new
tokens only. Where passes are cut is decided by the conversation alone, and a memory that is gone is made again by the
same passes, so the state's bits never depend on what happens to be remembered.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

import numpy as np

from services.core.campaign import EncoderSpec
from services.core.errors import AttemptInterrupted, SpecError
from services.core.protocol.prompts import router_messages
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.chat import ChatTokenizer
from services.encoder.fingerprint import Fingerprint
from services.encoder.memories import Memories
from services.encoder.reading import CutCounter, Reading
from services.encoder.reference import QUESTIONS
from services.encoder.slm import POSITIONS, Memory, SmallLanguageModel, limit_threads, numerics
from services.encoder.state_cache import CacheCounts, State, StateCache, StateFile
from services.encoder.weights import obtain, silent, weights_digest

P = ParamSpec("P")
T = TypeVar("T")

Chain = tuple[tuple[int, ...], ...]  # token ids of an empty conversation, of the question, and after each turn

_SHORTEST = 64  # tokens; below this the template and the instruction alone would not fit
_MEMORY_BYTES = 1 << 30
_UNCHANGED: State = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True)
class _Model:
    chat: ChatTokenizer
    language_model: SmallLanguageModel
    weights: str
    cache_prefix: bytes


class EncoderService:
    """Owns the models, the threads that run them and the cache. Build one per process; close it at the end.

    Forward passes run on ``parallel`` threads of its own, ``threads`` cores each. On a busy machine a second core for
    one pass mostly waits for the first; two passes side by side use two cores nearly fully.
    """

    def __init__(
        self,
        model_dir: Path,
        *,
        threads: int = 1,
        parallel: int = 2,
        cache_file: Path | None = None,
        memory_bytes: int = _MEMORY_BYTES,
        announce: Callable[[str], None] = silent,
    ) -> None:
        """Open the cache; models are loaded when an encoder asks for them.

        Args:
            model_dir: where the converted bundled model lives or will live.
            threads: cores of one forward pass.
            parallel: forward passes at the same time.
            cache_file: SQLite file of states shared by the processes of this machine; None for memory only.
            memory_bytes: bound of the keys and values kept of conversations that may go on.
            announce: told in one line about each slow step.
        """
        self._model_dir = model_dir
        self._threads = threads
        self._announce = announce
        self._cache = StateCache(None if cache_file is None else StateFile(cache_file))
        self._memories = Memories(memory_bytes)
        self._models: dict[tuple[str, str | None], _Model] = {}
        self._reading = lru_cache(maxsize=16)(self._make_reading)
        self._cuts = CutCounter()
        self._loading = threading.Lock()
        self._centres: dict[tuple[bytes, EncoderSpec, int], State] = {}
        self._centring = threading.Lock()
        self._flying: dict[bytes, Future[State]] = {}
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(
            parallel, thread_name_prefix="encoder", initializer=limit_threads, initargs=(threads,)
        )

    def __enter__(self) -> EncoderService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def encoder(self, spec: EncoderSpec, pool_size: int) -> Encoder:
        """Return the reader of one campaign, loading its model first if this process has not done so yet.

        Raises:
            SpecError: no such model, or limits and position that it cannot keep.
            PrerequisiteMissing: its files cannot be had.
        """
        with self._loading:
            name = (spec.model, spec.revision)
            if name not in self._models:
                self._models[name] = self._submit(self._load, *name).result()
        _check(spec, self._models[name].language_model.context)
        return Encoder(self, self._models[name], spec, self._reading(self._models[name], spec, pool_size), pool_size)

    def counts(self) -> CacheCounts:
        return self._cache.counts

    def metrics(self) -> dict[str, float]:
        """Return what operators watch, under the names of docs/operations.md."""
        states, cuts = self._cache.counts, self._cuts.counts
        return {
            "encoder_states_memory_hits_total": states.hits,
            "encoder_states_file_hits_total": states.file_hits,
            "encoder_states_misses_total": states.misses,
            "encoder_decisions_total": states.hits + states.file_hits + states.misses,
            "encoder_memory_bytes": self._memories.held_bytes,
            "encoder_items_cut_total": cuts.items,
            "encoder_items_dropped_total": cuts.dropped,
            "encoder_questions_cut_total": cuts.questions,
        }

    def close(self) -> None:
        """Let passes under way end, drop waiting ones (their callers get AttemptInterrupted), close the cache."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._cache.close()

    def state(self, model: _Model, chain: Chain, position: str) -> State:
        """Return the state of the chain's last conversation, from the cache or from passes that all askers share."""
        key = _key(model, chain, position)
        state = self._cache.get(key, model.language_model.hidden_size)
        if state is not None:
            return state
        with self._lock:
            landed = self._cache.remembered(key)
            if landed is not None:
                return landed
            if (flight := self._flying.get(key)) is None:
                flight = self._flying[key] = self._submit(self._compute, key, model, chain, position)
        try:
            return flight.result()
        except CancelledError as error:
            raise AttemptInterrupted("the encoder is being closed") from error

    def centre(self, encoder: Encoder) -> State:
        """Return the mean state of the reference questions as this encoder reads them, float32 of shape (d,)."""
        with self._centring:
            if encoder.reading not in self._centres:
                self._announce(f"reading {len(QUESTIONS)} reference questions")
                states = [encoder.raw(Transcript(question)) for question in QUESTIONS]
                mean: State = np.stack(states).mean(axis=0, dtype=np.float64).astype(np.float32)
                self._centres[encoder.reading] = mean
            return self._centres[encoder.reading]

    def _make_reading(self, model: _Model, spec: EncoderSpec, pool_size: int) -> Reading:
        return Reading(model.chat, pool_size, spec.max_tokens, spec.item_tokens, self._cuts)

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._executor.submit(work, *args, **kwargs)
        except RuntimeError as error:
            raise AttemptInterrupted("the encoder is closed") from error

    def _compute(self, key: bytes, model: _Model, chain: Chain, position: str) -> State:
        try:
            state, _ = self._read(model, chain, position)
            self._cache.put(key, state)
            return state
        finally:
            with self._lock:
                del self._flying[key]

    def _read(self, model: _Model, chain: Chain, position: str) -> tuple[State, Memory | None]:
        """Read the chain's last conversation, going on from the one before, which is read first if it is forgotten."""
        before = None
        if len(chain) > 1 and model.language_model.extends:
            before = self._memories.get(_key(model, chain[:-1], "")) or self._read(model, chain[:-1], position)[1]
        state, memory = model.language_model.read(chain[-1], position, before)
        if memory is not None:
            self._memories.put(_key(model, chain, ""), memory)
        return state, memory

    def _load(self, name: str, revision: str | None) -> _Model:
        folder = obtain(name, revision, self._model_dir, announce=self._announce)
        self._announce(f"loading the encoder model {name}")
        chat = ChatTokenizer.load(folder, name)
        language_model = SmallLanguageModel.load(folder, name)
        weights = weights_digest(folder, name)
        prefix = f"{weights}\n{numerics(self._threads)}\n".encode()
        return _Model(chat, language_model, weights, prefix)


class Encoder:
    """Reads the conversations of one campaign. Cheap, and safe to share between threads."""

    def __init__(
        self, service: EncoderService, model: _Model, spec: EncoderSpec, reading: Reading, pool_size: int
    ) -> None:
        self._service = service
        self._model = model
        self._spec = spec
        self._reading = reading
        self.hidden_size = model.language_model.hidden_size
        self.reading = (model.cache_prefix, spec, pool_size)

    def encode(self, transcript: Transcript, offsets: State = _UNCHANGED) -> State:
        """Return the state the head acts on: float32, shape (hidden_size,), read-only.

        Bit-identical for equal conversations on one machine, whatever else is being read at the same time.

        Raises:
            AttemptInterrupted: the service is being closed.
        """
        state = self.raw(transcript)
        if not self._spec.center:
            return state
        centred = state - self._service.centre(self)
        centred.flags.writeable = False
        return centred

    def raw(self, transcript: Transcript) -> State:
        """Return the model's own state, whether or not the campaign centres it."""
        return self._service.state(self._model, self.chain(transcript), self._spec.position)

    def chain(self, transcript: Transcript) -> Chain:
        """Return the token ids after each step that led to ``transcript``, from an empty conversation on."""
        turns = (Transcript(transcript.query, transcript.items[:count]) for count in range(len(transcript.items) + 1))
        return tuple(self.token_ids(step) for step in (Transcript(""), *turns))

    def token_ids(self, transcript: Transcript) -> tuple[int, ...]:
        """Return what the model reads, by the rule of ``services.encoder.reading``."""
        return self._reading.token_ids(transcript)

    def fingerprint(self) -> Fingerprint:
        """Return what a head trained with this encoder depends on."""
        return Fingerprint(
            model=self._spec.model,
            weights=self._model.weights,
            tokenizer=self._model.chat.tokenizer_digest,
            template=self._model.chat.template_digest,
            prompt=_prompt_digest(),
            position=self._spec.position,
            max_tokens=self._spec.max_tokens,
            item_tokens=self._spec.item_tokens,
            center=hashlib.sha256("\n".join(QUESTIONS).encode()).hexdigest() if self._spec.center else "",
        )


def _key(model: _Model, chain: Chain, position: str) -> bytes:
    digest = hashlib.sha256(model.cache_prefix + position.encode())
    for token_ids in chain:
        digest.update(f"\n{len(token_ids)}\n".encode() + np.asarray(token_ids, dtype="<i4").tobytes())
    return digest.digest()


def _check(spec: EncoderSpec, context: int) -> None:
    if not _SHORTEST <= spec.max_tokens <= context:
        raise SpecError("encoder.max_tokens", spec.max_tokens, f"{_SHORTEST} to {context}, the model's context")
    if spec.item_tokens < 2:
        raise SpecError("encoder.item_tokens", spec.item_tokens, "at least 2")
    if spec.position not in POSITIONS:
        raise SpecError("encoder.position", spec.position, " or ".join(POSITIONS))


def _prompt_digest() -> str:
    """Return a sha256 of the router prompt for a made-up conversation that shows every role."""
    items = tuple(
        Item(number, number, role, RoleSource.POLICY, "output", "text", answer="1" if role is Role.WORKER else None)
        for number, role in enumerate(Role, start=1)
    )
    messages = router_messages(Transcript("question", items), 3)
    return hashlib.sha256("\n".join(f"{message.role}\n{message.content}" for message in messages).encode()).hexdigest()
