"""What can be told about an encoder model without loading it, and without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.core.architecture import FAMILIES, Architecture, Decoder
from services.core.errors import PrerequisiteMissing, SpecError

BUNDLED = "smollm2-135m-instruct"

# Known without files and without a model hub.
KNOWN = {
    BUNDLED: Architecture(
        "llama",
        576,
        Decoder(layers=30, intermediate=1536, heads=9, kv_heads=3, head_dim=64, vocabulary=49_152, tied=True),
    ),
    "Qwen/Qwen3-0.6B": Architecture(
        "qwen3",
        1024,
        Decoder(layers=28, intermediate=3072, heads=16, kv_heads=8, head_dim=128, vocabulary=151_936, tied=True),
    ),
}
_QWEN3_HEAD_DIM = 128  # what transformers assumes when a qwen3 configuration does not say


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


def architecture(model: str, revision: str | None = None) -> Architecture:
    """Return the model's shapes; the hub is asked only for models not in ``KNOWN``.

    A family whose matrices are not known here has its ``hidden`` alone.

    Raises:
        SpecError: no such model, or a config.json that does not describe one.
        PrerequisiteMissing: the hub cannot be asked.
    """
    folder = local_folder(model)
    if folder is None and model in KNOWN and (model == BUNDLED or revision is None):
        return KNOWN[model]
    path = folder / "config.json" if folder else _config_of_hub(model, revision)
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        return _architecture(settings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        wanted = f"a model whose config.json names its hidden_size and, for {', '.join(FAMILIES)}, its shapes"
        raise SpecError("encoder.model", model, f"{wanted} ({type(error).__name__}: {error})") from error


def _config_of_hub(model: str, revision: str | None) -> Path:
    try:
        from services.encoder.hub import fetch_config
    except ModuleNotFoundError as error:  # a machine that only submits has none of the worker's packages
        raise PrerequisiteMissing(
            f"the hidden size of {model} stands on the model hub, and the packages to read it are not installed",
            f"install this project with its extra `worker`, or name a local folder or one of {', '.join(KNOWN)}",
        ) from error
    return fetch_config(model, revision)


def _architecture(settings: Mapping[str, Any]) -> Architecture:
    family = str(settings.get("model_type", "unknown"))
    if family not in FAMILIES:
        return Architecture(family, int(settings.get("hidden_size") or settings["text_config"]["hidden_size"]))
    hidden, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
    usual = _QWEN3_HEAD_DIM if family == "qwen3" else hidden // heads
    decoder = Decoder(
        layers=int(settings["num_hidden_layers"]),
        intermediate=int(settings["intermediate_size"]),
        heads=heads,
        kv_heads=int(settings.get("num_key_value_heads") or heads),
        head_dim=int(settings.get("head_dim") or usual),
        vocabulary=int(settings["vocab_size"]),
        tied=bool(settings.get("tie_word_embeddings", False)),
    )
    if min(hidden, decoder.layers, decoder.intermediate, heads, decoder.kv_heads, decoder.vocabulary) < 1:
        raise ValueError("sizes of at least 1")
    return Architecture(family, hidden, decoder)
