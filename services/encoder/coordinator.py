"""One reader of conversations for all threads of a worker: each state is computed once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import EncoderSpec, Norm
from services.core.errors import AttemptInterrupted, SpecError
from services.core.fingerprint import Fingerprint
from services.core.protocol.prompts import router_messages
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.models import Model, Models
from services.encoder.passes import Alone, AnyReader, Passes, Together
from services.encoder.reader import Chain, Request, State, Stores
from services.encoder.reading import CUTTING_RULE, CutCounter, Reading
from services.encoder.reference import QUESTIONS
from services.encoder.slm import POSITIONS, memory_for
from services.encoder.state_cache import CacheCounts, StateCache, StateFile
from services.encoder.weights import silent

_SHORTEST = 64  # tokens; below this the template and the instruction alone would not fit
_UNCHANGED: State = np.zeros(0, dtype=np.float32)


class EncoderService:
    """Owns the models, what runs them, and the caches. Build one per process; close it at the end."""

    def __init__(
        self,
        model_dir: Path,
        *,
        device: str = "cpu",
        threads: int = 1,
        parallel: int = 2,
        cache_file: Path | None = None,
        memory_bytes: int | None = None,
        announce: Callable[[str], None] = silent,
    ) -> None:
        """Open the cache; models are loaded when an encoder asks for them.

        Args:
            model_dir: where the converted bundled model lives or will live, and the decompositions of its matrices.
            device: ``cpu``, where conversations are read one by one in float32, or a GPU such as ``cuda:0``, where
                those that wait at the same time are read side by side in bfloat16.
            threads: cores of one forward pass on the CPU.
            parallel: forward passes at the same time on the CPU.
            cache_file: SQLite file of states shared by the processes of this machine; None for memory only.
            memory_bytes: bound of what is kept of conversations and candidates; None for what suits the device.
            announce: told in one line about each slow step.
        """
        self._announce = announce
        self._cache = StateCache(None if cache_file is None else StateFile(cache_file))
        self._stores = Stores(memory_for(device) if memory_bytes is None else memory_bytes)
        self._models = Models(model_dir, device, threads, self._stores, announce)
        self._passes: Passes = Alone(parallel, threads) if device == "cpu" else Together(threads)
        self._reading = lru_cache(maxsize=16)(self._make_reading)
        self._cuts = CutCounter()
        self._centres: dict[tuple[bytes, EncoderSpec, int], State] = {}
        self._centring = threading.Lock()
        self._flying: dict[bytes, Future[State]] = {}
        self._lock = threading.RLock()

    def __enter__(self) -> EncoderService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def encoder(self, spec: EncoderSpec, pool_size: int) -> Encoder:
        """Return the reader of one campaign, loading its model first if this process has not done so yet.

        Raises:
            SpecError: no such model, or matrices, limits and position that it does not have.
            PrerequisiteMissing: its files cannot be had.
        """
        model, reader = self._models.loaded(spec) or self._loaded(spec)
        _check(spec, model.language_model.context)
        return Encoder(self, model, reader, spec, self._reading(model, spec, pool_size), pool_size)

    def counts(self) -> CacheCounts:
        return self._cache.counts

    def metrics(self) -> dict[str, float]:
        """Return what operators watch, under the names of docs/operations.md."""
        states, cuts = self._cache.counts, self._cuts.counts
        figures: dict[str, float] = {
            "encoder_states_memory_hits_total": states.hits,
            "encoder_states_file_hits_total": states.file_hits,
            "encoder_states_misses_total": states.misses,
            "encoder_decisions_total": states.hits + states.file_hits + states.misses,
            "encoder_items_cut_total": cuts.items,
            "encoder_items_dropped_total": cuts.dropped,
            "encoder_questions_cut_total": cuts.questions,
        }
        for name, store in self._stores.by_name.items():
            figures[f"encoder_{name}_hits_total"] = store.hits
            figures[f"encoder_{name}_misses_total"] = store.misses
            figures[f"encoder_{name}_bytes"] = store.bytes
        return figures

    def close(self) -> None:
        """Let passes under way end, drop waiting ones (their callers get AttemptInterrupted), close the cache."""
        self._passes.close()
        self._cache.close()

    def state(self, reader: AnyReader, request: Request, size: int) -> State:
        """Return a state of ``size`` numbers, from the cache or from passes that all askers share."""
        key = reader.key(request)
        state = self._cache.get(key, size, filed=reader.shared)
        if state is not None:
            return state
        with self._lock:
            landed = self._cache.remembered(key)
            if landed is not None:
                return landed
            flight = self._flying.get(key)
            if flight is None:
                try:
                    flight = self._flying[key] = self._passes.submit(reader, request)
                except RuntimeError as error:
                    raise AttemptInterrupted("the encoder is closed") from error
                flight.add_done_callback(partial(self._landed, key, reader.shared))
        try:
            return flight.result()
        except CancelledError as error:
            raise AttemptInterrupted("the encoder is being closed") from error

    def centre(self, encoder: Encoder) -> State:
        """Return the mean state of the reference questions as the unchanged model reads them, float32 of shape (d,)."""
        with self._centring:
            if encoder.reading not in self._centres:
                self._announce(f"reading {len(QUESTIONS)} reference questions")
                states = [encoder.raw(Transcript(question)) for question in QUESTIONS]
                mean: State = np.stack(states).mean(axis=0, dtype=np.float64).astype(np.float32)
                self._centres[encoder.reading] = mean
            return self._centres[encoder.reading]

    def _make_reading(self, model: Model, spec: EncoderSpec, pool_size: int) -> Reading:
        return Reading(model.chat, pool_size, spec.max_tokens, spec.item_tokens, self._cuts)

    def _landed(self, key: bytes, shared: bool, flight: Future[State]) -> None:
        with self._lock:
            if not flight.cancelled() and flight.exception() is None:
                self._cache.put(key, flight.result(), filed=shared)
            del self._flying[key]

    def _loaded(self, spec: EncoderSpec) -> tuple[Model, AnyReader]:
        try:
            loading = self._passes.call(partial(self._models.load, spec))
        except RuntimeError as error:
            raise AttemptInterrupted("the encoder is closed") from error
        return loading.result()


class Encoder:
    """Reads the conversations of one campaign. Cheap, and safe to share between threads."""

    def __init__(
        self,
        service: EncoderService,
        model: Model,
        reader: AnyReader,
        spec: EncoderSpec,
        reading: Reading,
        pool_size: int,
    ) -> None:
        self._service = service
        self._model = model
        self._reader = reader
        self._spec = spec
        self._unchanged = np.zeros(sum(matrix.size for matrix in spec.singular_values), dtype=np.float32)
        self._reading = reading
        self.hidden_size = model.language_model.hidden_size
        self.reading = (model.prefix, spec, pool_size)

    def encode(self, transcript: Transcript, offsets: NDArray[np.float32] = _UNCHANGED) -> State:
        """Return the state the head acts on: float32, shape (hidden_size,), read-only.

        On a CPU bit-identical for equal conversations and offsets, whatever else is being read at the same time.

        Args:
            transcript: the conversation so far.
            offsets: the candidate's singular-value offsets, (svf,), or none for the unchanged model.

        Raises:
            AttemptInterrupted: the service is being closed.
            SpecError: the offsets do not fit the campaign's matrices.
        """
        state = self.raw(transcript, offsets)
        if self._spec.center:
            state = state - self._service.centre(self)
        if self._spec.norm is Norm.RMS:
            state = (state / np.sqrt(np.mean(np.square(state, dtype=np.float64)))).astype(np.float32)
        state.flags.writeable = False
        return state

    def raw(self, transcript: Transcript, offsets: NDArray[np.float32] = _UNCHANGED) -> State:
        """Return the model's own state, neither centred nor normalised."""
        given = offsets if offsets.size else self._unchanged
        request = self._reader.request(self.chain(transcript), given)
        return self._service.state(self._reader, request, self.hidden_size)

    def chain(self, transcript: Transcript) -> Chain:
        """Return what is read after each step that led to ``transcript``, from an empty conversation on.

        Tokens behind the one whose state is taken cannot change it and are left out.
        """
        turns = (Transcript(transcript.query, transcript.items[:count]) for count in range(len(transcript.items) + 1))
        ends = POSITIONS[self._spec.position] + 1
        texts = (self.token_ids(step) for step in (Transcript(""), *turns))
        return tuple(ids[: len(ids) + ends] for ids in texts)

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
            norm=str(self._spec.norm),
            singular_values=tuple(matrix.name for matrix in self._spec.singular_values),
            cutting_rule=CUTTING_RULE,
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
