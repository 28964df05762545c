"""A pool model as a campaign file describes it."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from services.config.fields import SECRET, Money, Positive, Section
from services.config.settings import LOCAL_PREFIX

# What the product decides itself for every call: who is asked, with which key, how long, how much, and how often.
# Headers are among them because keys travel in headers, and a campaign file is stored and shown.
RESERVED_OPTIONS = frozenset(
    {"model", "messages", "api_key", "api_base", "base_url", "timeout", "stream", "n"}
    | {"headers", "extra_headers", "max_tokens", "max_completion_tokens", "num_retries", "max_retries", "mock_response"}
)
# Keys have no place in a file that is stored, shown and exported, however deep they are put.
_SECRET_NAME = re.compile(
    r"api[-_]?key|secret|passw|credential|authorization|(access|auth|id|session|bearer)[-_]?token", re.IGNORECASE
)

_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+:/-]{0,99}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def _model_name(value: str) -> str:
    if not _MODEL_NAME.fullmatch(value):
        raise ValueError("a name without spaces, such as qwen2.5-7b-instruct")
    return value


def _variable_name(value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(value):
        raise ValueError("the name of an environment variable, never the key itself")
    return value


def _base_url(value: str) -> str:
    wanted = "http(s)://HOST/... without a password, a query or a key, or local:POOL"
    if value.startswith(LOCAL_PREFIX):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", value.removeprefix(LOCAL_PREFIX)):
            raise ValueError(wanted)
        return value
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.password
        usable = usable and (parts.port is None or parts.port > 0)
        usable = usable and not parts.query and not parts.fragment and not SECRET.search(value)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(wanted)
    return value.rstrip("/")


def _options(value: dict[str, Any]) -> dict[str, Any]:
    reserved = sorted(RESERVED_OPTIONS & value.keys())
    if reserved:
        raise ValueError(f"options other than {', '.join(reserved)}, which the product sets itself")
    body = value.get("extra_body")
    reserved = sorted(RESERVED_OPTIONS & body.keys()) if isinstance(body, dict) else []
    if reserved:
        raise ValueError(f"options in extra_body other than {', '.join(reserved)}, which the product sets itself")
    if _holds_secret(value):
        raise ValueError("options without keys; name the environment variable in api_key_env")
    return value


def _description(value: str) -> str:
    if SECRET.search(value):
        raise ValueError("a description without keys")
    return value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_SECRET_NAME.search(str(name)) or _holds_secret(inner) for name, inner in value.items())
    if isinstance(value, list):
        return any(_holds_secret(inner) for inner in value)
    return isinstance(value, str) and SECRET.search(value) is not None


class PriceSection(Section):
    """USD per million tokens; cached prompt tokens and reasoning cost as others do unless said otherwise."""

    input: Money
    output: Money
    cached_input: Money | None = None
    reasoning: Money | None = None


class ModelSection(Section):
    name: Annotated[str, AfterValidator(_model_name)]
    model: Annotated[str, AfterValidator(_model_name)]
    price: PriceSection
    base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    api_key_env: Annotated[str, AfterValidator(_variable_name)] | None = None
    options: Annotated[dict[str, Any], AfterValidator(_options)] = Field(default_factory=dict)
    context_window: Positive | None = None
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    max_concurrency: Positive | None = None
    stream: bool = False
    description: Annotated[str, Field(max_length=1000), AfterValidator(_description)] = ""
