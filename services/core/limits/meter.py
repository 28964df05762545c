"""What a provider counts and limits together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from services.core.campaign import ModelSpec


@dataclass(frozen=True)
class Meter:
    """One model behind one key; campaigns that use the same share its limits and its breaker.

    Attributes:
        key: the same in every campaign and on every machine.
        label: for people; names the variable of the key, never the key.
    """

    key: str
    label: str


def meter_of(model: ModelSpec) -> Meter:
    """Return the meter of a pool model: its address, its name at the provider, and the variable of its key."""
    counted = [model.base_url or "", model.litellm_model, model.api_key_env or ""]
    where = "" if model.base_url is None else f" at {model.base_url}"
    whose = "" if model.api_key_env is None else f" with {model.api_key_env}"
    return Meter(hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:32], f"{model.litellm_model}{where}{whose}")
