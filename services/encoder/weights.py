"""Where an encoder model's files are on this machine, fetched first if need be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from services.core.errors import SpecError
from services.encoder import hub
from services.encoder.bundled import obtain_bundled
from services.encoder.catalogue import BUNDLED, local_folder


def silent(line: str) -> None:
    """Take a line of progress and say nothing."""


def obtain(model: str, revision: str | None, model_dir: Path, *, announce: Callable[[str], None] = silent) -> Path:
    """Return a folder with configuration, safetensors weights and tokenizer of ``model``.

    Args:
        model: ``smollm2-135m-instruct``, a local folder, or a hub name.
        revision: hub revision; ignored for the other two.
        model_dir: where the converted bundled model lives.
        announce: told in one line about each slow step.

    Raises:
        SpecError: there is no such model.
        PrerequisiteMissing: its files are neither here nor within reach.
    """
    if model == BUNDLED:
        return obtain_bundled(model_dir, announce)
    return local_folder(model) or hub.fetch_model(model, revision)


def weights_digest(folder: Path, model: str) -> str:
    """Return one sha256 over the folder's weight files, by name and content; raises SpecError if it has none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SpecError("encoder.model", model, f"weights in *.safetensors files in {folder}")
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as handle:
            digest.update(f"{path.name}:{hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
