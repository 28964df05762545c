"""Files of a model hub repository. Without network, what an earlier run left in the hub's own cache is used."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

from services.core.errors import PrerequisiteMissing, SpecError

# Weights in pickle form and code files are never fetched: reading either would run what the repository says.
MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model")


def fetch_config(model: str, revision: str | None) -> Path:
    """Return the path of the repository's ``config.json``; raises SpecError, PrerequisiteMissing."""
    try:
        return Path(hf_hub_download(model, "config.json", revision=revision))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise unknown_model(model) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise _unreachable(model) from error


def fetch_model(model: str, revision: str | None) -> Path:
    """Return a folder with configuration, weights and tokenizer; raises SpecError, PrerequisiteMissing."""
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(MODEL_FILES)))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise unknown_model(model) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise _unreachable(model) from error


def unknown_model(model: str) -> SpecError:
    return SpecError(
        "encoder.model", model, "smollm2-135m-instruct, a model hub name such as Qwen/Qwen3-0.6B, or a local folder"
    )


def _unreachable(model: str) -> PrerequisiteMissing:
    return PrerequisiteMissing(
        f"the encoder model {model} is not on this machine and the model hub cannot be reached",
        "connect once, or name a local folder or smollm2-135m-instruct as encoder.model",
    )
