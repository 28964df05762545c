"""One reader of conversations for all threads of a worker: each state is computed once, on few threads."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

import numpy as np

from services.core.campaign import EncoderSpec
from services.core.errors import AttemptInterrupted, SpecError
from services.core.protocol.prompts import router_messages, router_texts
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.chat import ChatTokenizer
from services.encoder.fingerprint import Fingerprint
from services.encoder.reference import QUESTIONS
from services.encoder.slm import POSITIONS, SmallLanguageModel, limit_threads, numerics
from services.encoder.state_cache import CacheCounts, State, StateCache, StateFile
from services.encoder.weights import obtain, silent, weights_digest

P = ParamSpec("P")
T = TypeVar("T")

_SHORTEST = 64  # tokens; below this the template and the instruction alone would not fit


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
        announce: Callable[[str], None] = silent,
    ) -> None:
        """Open the cache; models are loaded when an encoder asks for them.

        Args:
            model_dir: where the converted bundled model lives or will live.
            threads: cores of one forward pass.
            parallel: forward passes at the same time.
            cache_file: SQLite file of states shared by the processes of this machine; None for memory only.
            announce: told in one line about each slow step.
        """
        self._model_dir = model_dir
        self._threads = threads
        self._announce = announce
        self._cache = StateCache(None if cache_file is None else StateFile(cache_file))
        self._models: dict[tuple[str, str | None], _Model] = {}
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
        return Encoder(self, self._models[name], spec, pool_size)

    def counts(self) -> CacheCounts:
        return self._cache.counts

    def close(self) -> None:
        """Let passes under way end, drop waiting ones (their callers get AttemptInterrupted), close the cache."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._cache.close()

    def state(self, model: _Model, token_ids: Sequence[int], position: str) -> State:
        """Return the state of these tokens, from the cache or from the one pass that all who ask at once share."""
        tokens = np.asarray(token_ids, dtype="<i4").tobytes()
        key = hashlib.sha256(model.cache_prefix + position.encode() + b"\n" + tokens).digest()
        state = self._cache.get(key, model.language_model.hidden_size)
        if state is not None:
            return state
        with self._lock:
            landed = self._cache.remembered(key)
            if landed is not None:
                return landed
            if (flight := self._flying.get(key)) is None:
                flight = self._flying[key] = self._submit(self._compute, key, model, token_ids, position)
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

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._executor.submit(work, *args, **kwargs)
        except RuntimeError as error:
            raise AttemptInterrupted("the encoder is closed") from error

    def _compute(self, key: bytes, model: _Model, token_ids: Sequence[int], position: str) -> State:
        try:
            state = model.language_model.state(token_ids, position)
            self._cache.put(key, state)
            return state
        finally:
            with self._lock:
                del self._flying[key]

    def _load(self, name: str, revision: str | None) -> _Model:
        folder = obtain(name, revision, self._model_dir, announce=self._announce)
        self._announce(f"loading the encoder model {name}")
        chat = ChatTokenizer.load(folder, name)
        language_model = SmallLanguageModel.load(folder, name)
        weights = weights_digest(folder, name)
        return _Model(chat, language_model, weights, f"{weights}\n{numerics(self._threads)}\n".encode())


class Encoder:
    """Reads the conversations of one campaign. Cheap, and safe to share between threads."""

    def __init__(self, service: EncoderService, model: _Model, spec: EncoderSpec, pool_size: int) -> None:
        self._service = service
        self._model = model
        self._spec = spec
        self._pool_size = pool_size
        self.hidden_size = model.language_model.hidden_size
        self.reading = (model.cache_prefix, spec, pool_size)

    def encode(self, transcript: Transcript) -> State:
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
        return self._service.state(self._model, self.token_ids(transcript), self._spec.position)

    def token_ids(self, transcript: Transcript) -> tuple[int, ...]:
        """Return what the model reads: items cut to ``item_tokens``, then the whole to ``max_tokens``."""
        texts = [self._model.chat.cap(text, self._spec.item_tokens) for text in router_texts(transcript)]
        messages = router_messages(transcript, self._pool_size, texts)
        return self._model.chat.token_ids(messages, self._spec.max_tokens)

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
