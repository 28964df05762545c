"""Encoder models as this process holds them: loaded once, with a reader for every choice of matrices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.core.campaign import EncoderSpec, Matrix
from services.core.errors import SpecError
from services.encoder.chat import ChatTokenizer
from services.encoder.decoder import FAMILIES
from services.encoder.passes import AnyReader
from services.encoder.reader import Reader, Stores
from services.encoder.singular_values import SingularValues, bases_of
from services.encoder.slm import SmallLanguageModel, numerics
from services.encoder.weights import obtain, weights_digest
from services.encoder.whole import WholeReader


@dataclass(frozen=True)
class Model:
    """One loaded model.

    Attributes:
        weights: digest of its weight files.
        prefix: what its states depend on besides text and candidate.
    """

    chat: ChatTokenizer
    language_model: SmallLanguageModel
    weights: str
    prefix: bytes


class Models:
    """Loads what is asked for, once. Its methods run where forward passes run."""

    def __init__(
        self, model_dir: Path, device: str, threads: int, stores: Stores, announce: Callable[[str], None]
    ) -> None:
        self._model_dir = model_dir
        self._device = device
        self._threads = threads
        self._stores = stores
        self._announce = announce
        self._models: dict[tuple[str, str | None], Model] = {}
        self._readers: dict[tuple[str, tuple[Matrix, ...]], AnyReader] = {}
        self._loading = threading.Lock()

    def loaded(self, spec: EncoderSpec) -> tuple[Model, AnyReader] | None:
        """Return a campaign's model and reader if they are here."""
        model = self._models.get((spec.model, spec.revision))
        reader = model and self._readers.get((model.weights, spec.singular_values))
        return (model, reader) if model and reader else None

    def load(self, spec: EncoderSpec) -> tuple[Model, AnyReader]:
        """Return a campaign's model and reader, made first if need be.

        Raises:
            SpecError: no such model, or one without these matrices.
            PrerequisiteMissing: its files cannot be had.
        """
        with self._loading:
            name = (spec.model, spec.revision)
            if name not in self._models:
                self._models[name] = self._model(*name)
            model = self._models[name]
            key = (model.weights, spec.singular_values)
            if key not in self._readers:
                self._readers[key] = self._reader(model, spec)
            return model, self._readers[key]

    def _model(self, name: str, revision: str | None) -> Model:
        folder = obtain(name, revision, self._model_dir, announce=self._announce)
        self._announce(f"loading the encoder model {name}")
        chat = ChatTokenizer.load(folder, name)
        language_model = SmallLanguageModel.load(folder, name, self._device)
        weights = weights_digest(folder, name)
        prefix = f"{weights}\n{numerics(self._threads, self._device)}\n".encode()
        return Model(chat, language_model, weights, prefix)

    def _reader(self, model: Model, spec: EncoderSpec) -> AnyReader:
        decoder = model.language_model.decoder
        matrices = spec.singular_values
        if decoder is None:
            if matrices:
                known = ", ".join(sorted(family.__name__ for family in FAMILIES))
                raise SpecError("encoder.singular_values", spec.model, f"none, or a model of a known family ({known})")
            return WholeReader(model.language_model, model.prefix)
        if not matrices:
            return Reader(decoder, None, self._stores, model.prefix)
        self._announce(f"preparing the singular values of {len(matrices)} matrices")
        folder = self._model_dir / "singular-values" / model.weights
        values = SingularValues(decoder, matrices, bases_of(decoder, matrices, folder))
        names = ",".join(matrix.name for matrix in matrices)
        return Reader(decoder, values, self._stores, model.prefix + f"{names}\n".encode())
