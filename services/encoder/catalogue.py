"""What can be told about an encoder model without loading it, and without torch."""

from __future__ import annotations

import json
from pathlib import Path

from services.core.errors import PrerequisiteMissing, SpecError

try:
    from services.encoder.hub import fetch_config
except ModuleNotFoundError:  # a machine that only submits and schedules has none of the worker's packages

    def fetch_config(model: str, revision: str | None) -> Path:
        raise PrerequisiteMissing(
            f"the hidden size of {model} stands on the model hub, and the packages to read it are not installed",
            "install this project with its extra `worker`, or name a local folder or smollm2-135m-instruct",
        )


BUNDLED = "smollm2-135m-instruct"
_BUNDLED_HIDDEN_SIZE = 576


def local_folder(model: str) -> Path | None:
    """Return the folder that ``model`` names, or None if it is the bundled model or a hub name.

    Raises:
        SpecError: it is written as a path but no folder with a ``config.json`` is there.
    """
    if model == BUNDLED:
        return None
    folder = Path(model).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir() or model.startswith(("/", ".", "~")):
        raise SpecError("encoder.model", model, "a folder that holds a model (config.json, *.safetensors, tokenizer)")
    return None


def hidden_size(model: str, revision: str | None = None) -> int:
    """Return d, the length of the model's states. Raises SpecError, PrerequisiteMissing."""
    if model == BUNDLED:
        return _BUNDLED_HIDDEN_SIZE
    folder = local_folder(model)
    path = folder / "config.json" if folder else fetch_config(model, revision)
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        size = settings.get("hidden_size") or settings["text_config"]["hidden_size"]
        return int(size)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError("encoder.model", model, "a model whose config.json names its hidden_size") from error
