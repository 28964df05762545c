"""From a folder to a coordinator that picks, once the encoder at hand is known to be the one it was trained with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from services.checkpoint import folder as checkpoints
from services.checkpoint.description import Description
from services.coordinator.picking import Coordinator
from services.core.errors import AttemptInterrupted, SpecError
from services.core.protocol.ports import StateEncoder


def load(
    folder: str | Path,
    *,
    model: str | None = None,
    model_dir: str | Path | None = None,
    device: str = "cpu",
    unverified: bool = False,
) -> Coordinator:
    """Read a checkpoint, load its encoder, and hold every field of the reading against it.

    Args:
        folder: the checkpoint.
        model: the encoder model's name or folder on this machine, if it is not where the campaign had it.
        model_dir: where the bundled model lives or will live; default as the settings say.
        device: where the encoder runs, ``cpu`` or a GPU such as ``cuda:0``.
        unverified: take whatever encoder is there when nobody recorded which one the coordinator was trained with.

    Raises:
        SpecError: the folder or a field of it is wrong, or the encoder reads otherwise; names every field that differs.
        LayoutMismatch: the parameters do not fit the layout.
        PrerequisiteMissing: the encoder's files cannot be had.
    """
    checkpoint = checkpoints.read(Path(folder))
    description = checkpoint.description
    if description.reading is None and not unverified:
        raise SpecError(
            "reading", "nothing", "the recorded fingerprint of the encoder; load(..., unverified=True) trusts"
        )
    # Torch takes seconds to import, and is not installed where nothing is loaded.
    from services.config.settings import load_settings
    from services.encoder.coordinator import EncoderService

    models = load_settings().models_folder() if model_dir is None else Path(model_dir)
    service = EncoderService(models, device=device)
    try:
        spec = description.encoder if model is None else replace(description.encoder, model=model, revision=None)
        encoder = service.encoder(spec, len(description.pool))
        require_same_reading(description, encoder)
    except (RuntimeError, AssertionError, AttemptInterrupted) as error:
        service.close()
        if device == "cpu":
            raise
        # Nobody has closed this encoder: it is what torch says about a device that it does not have.
        reason = (str(error.__cause__ or error).splitlines() or ["no reason given"])[0]
        raise SpecError("device", device, f"cpu, or a GPU that is here ({reason})") from error
    except BaseException:
        service.close()
        raise
    return Coordinator(checkpoint, encoder, service.close)


def require_same_reading(description: Description, encoder: StateEncoder) -> None:
    """Raise SpecError unless the encoder's states are those that the head was trained on; names every difference."""
    if description.reading is not None:
        description.reading.require(encoder.fingerprint(), description.name)
    if encoder.hidden_size != description.layout.hidden:
        raise SpecError("layout.hidden", description.layout.hidden, f"{encoder.hidden_size}, the model's")
