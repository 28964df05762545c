"""Completions from OpenAI-compatible addresses without litellm, which takes ten times the processor time for the same.

Only for models with a ``base_url`` and options that mean the same everywhere; what OpenAI itself renames from model to
model is litellm's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx

from services.core.campaign import ModelSpec
from services.pool.exchange import LONGEST_REFUSAL, Exchange, WatchedClient
from services.pool.streaming import BrokenStream, collected

PREFIX = "openai/"
EVENTS = "text/event-stream"
# Their API wants other fields from one to the next.
OPENAIS_OWN = re.compile(r"gpt-|chatgpt-|o\d")
PLAIN_OPTIONS = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "seed", "stop", "reasoning_effort", "chat_template_kwargs", "extra_body"}
    | {"presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "response_format"}
)


class NoCompletion(Exception):
    """The provider answered otherwise; says what it said."""


def speaks(model: ModelSpec) -> bool:
    """Tell whether the model can be asked here."""
    return (
        model.base_url is not None
        and model.litellm_model.startswith(PREFIX)
        and not OPENAIS_OWN.match(model.litellm_model.removeprefix(PREFIX))
        and model.options.keys() <= PLAIN_OPTIONS
        and isinstance(model.options.get("extra_body", {}), Mapping)
    )


def complete(
    client: WatchedClient,
    exchange: Exchange,
    address: str,
    key: str,
    model: ModelSpec,
    messages: Sequence[Mapping[str, str]],
    settings: Mapping[str, Any],
) -> Any:
    """Return the response with its JSON objects as namespaces, shaped as litellm's.

    Args:
        client: in its current exchange.
        exchange: that one.
        address: the base URL.
        key: sent as a bearer token.
        model: to ask.
        messages: the conversation.
        settings: further fields of the request; the model's options win over them.

    Raises:
        NoCompletion: a refusal, a redirection, or no JSON.
        httpx.HTTPError: the exchange failed; the exchange has the facts.
    """
    options = dict(model.options)
    extra = options.pop("extra_body", {})
    body = {"model": model.litellm_model.removeprefix(PREFIX), "messages": messages, **settings, **options, **extra}
    if model.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    request = client.build_request(
        "POST",
        f"{address}/chat/completions",
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    response = client.send(request, stream=model.stream)
    if model.stream:
        if response.headers.get("content-type", "").startswith(EVENTS):
            return _streamed(response, exchange)
        _read(response, exchange)
    if response.status_code >= 300:
        raise NoCompletion(_message(exchange.refusal) or f"HTTP {response.status_code}")
    try:
        return json.loads(response.content, object_hook=_namespace)
    except (ValueError, RecursionError):
        raise NoCompletion(response.text[:200] or "an empty body") from None


def _streamed(response: httpx.Response, exchange: Exchange) -> Any:
    """Return the reply that a stream adds up to; what came of it is kept whatever becomes of the rest."""
    try:
        found = collected(response.iter_lines(), exchange.received.append)
    except httpx.HTTPError as failure:
        exchange.failure = failure
        raise
    except BrokenStream as error:
        exchange.complete = True
        raise NoCompletion(str(error)) from None
    finally:
        response.close()
    if found is None:
        raise NoCompletion("the stream ended before the reply did")
    exchange.complete = True
    return found


def _read(response: httpx.Response, exchange: Exchange) -> None:
    """Read a body that is no stream after all: a refusal, or a server that streams nothing."""
    try:
        response.read()
    except httpx.HTTPError as failure:
        exchange.failure = failure
        raise
    finally:
        response.close()
    exchange.complete = True
    if response.status_code >= 400:
        exchange.refusal = response.content[:LONGEST_REFUSAL].decode("utf-8", "replace")


def _namespace(fields: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**fields)


def _message(refusal: str) -> str:
    """Return the sentence of an error's body, or the body."""
    try:
        said = json.loads(refusal)
    except (ValueError, RecursionError):
        return refusal
    inner = said.get("error", said) if isinstance(said, Mapping) else said
    text = inner.get("message") if isinstance(inner, Mapping) else inner
    return text if isinstance(text, str) else refusal
