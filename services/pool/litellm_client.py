"""The wall around litellm: one request per call, typed errors, and no object of theirs beyond this file."""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import httpx
import litellm
from litellm.llms.custom_httpx.http_handler import HTTPHandler

from services.core.campaign import ModelSpec
from services.core.errors import AuthenticationFailed, SpecError
from services.core.protocol.ports import Message, Reply
from services.pool.counting import estimated, require_window
from services.pool.exchange import Exchange, WatchedClient
from services.pool.failures import failure_of
from services.pool.local.wire import CALL_HEADER
from services.pool.openai_http import PREFIX, NoCompletion, complete, speaks
from services.pool.replies import reply_of

# What the ledger, the deadline and the retry loop rely on; a campaign's options must not change it.
RESERVED_OPTIONS = frozenset(
    {
        "api_base",
        "api_key",
        "base_url",
        "caching",
        "client",
        "default_headers",
        "extra_headers",
        "fallbacks",
        "headers",
        "max_completion_tokens",
        "max_retries",
        "max_tokens",
        "messages",
        "mock_response",
        "model",
        "model_list",
        "n",
        "no-log",
        "num_retries",
        "request_timeout",
        "retry_policy",
        "stream",
        "timeout",
    }
)
TALKATIVE = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "openai", "httpx", "httpcore")
NO_KEY = "none"
LOCAL = "local:"
# Providers that litellm reaches by its own HTTP code, which takes our client; other ones keep a deadline per read only.
OWN_HTTP = ("anthropic/", "gemini/")
FAILURES = (*litellm.exceptions.LITELLM_EXCEPTION_TYPES, NoCompletion, httpx.HTTPError)
SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)
SHORTEST_SECRET = 8
HALF_SURROGATES = re.compile("[\ud800-\udfff]")
# The SDK keeps one client per distinct timeout, so it gets a constant; the exchange keeps the real deadline.
UNREACHED_SECONDS = 86_400.0


def _unchanged(base_url: str | None) -> str | None:
    return base_url


class LitellmPool:
    """The campaign's models, each behind the provider that litellm's spelling of its name selects.

    Safe for use by many threads; connections are kept alive and shared.

    Args:
        models: in the campaign's order; a model's place is its agent index.
        resolve_base_url: turns ``local:NAME`` into an address.
        environment: where keys are looked up, by name, at every call, so that a key can be exchanged under a running
            worker and none is kept.
        direct: ask OpenAI-compatible addresses without litellm where that means the same.

    Raises:
        SpecError: an option of a model is one of ``RESERVED_OPTIONS``.
    """

    def __init__(
        self,
        models: Sequence[ModelSpec],
        resolve_base_url: Callable[[str | None], str | None] = _unchanged,
        environment: Mapping[str, str] = os.environ,
        *,
        direct: bool = True,
    ) -> None:
        for model in models:
            for option in sorted(RESERVED_OPTIONS & model.options.keys()):
                raise SpecError(f"pool.{model.name}.options.{option}", model.options[option], "no such option")
            if model.stream and not speaks(model):
                wanted = "false: only OpenAI-compatible addresses with plain options are asked for a stream"
                raise SpecError(f"pool.{model.name}.stream", model.stream, wanted)
        self._models = tuple(models)
        self._addresses = tuple(resolve_base_url(model.base_url) for model in models)
        self._environment = environment
        self._direct = direct
        self._client = _shared_client()
        self._handler = HTTPHandler(client=self._client)
        self._label = ""

    def complete(
        self,
        agent: int,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        temperature: float,
        timeout_seconds: float,
    ) -> Reply:
        """Ask one model once.

        A reply that the provider's filter emptied comes back as text "" with finish reason ``content_filter``: it is
        an answer that was paid for. Text in a reasoning field is never taken for the answer.

        Args:
            agent: index of the model.
            messages: the conversation; half surrogates are replaced, as no request can carry them.
            max_output_tokens: bound passed to the provider.
            temperature: passed on unless the model's options name another.
            timeout_seconds: until the last byte of the reply.

        Raises:
            PoolError: one of its kinds; ``billed_unknown`` when the provider may have charged for it.
            ContextTooLong: ``foreseen`` when the model's window cannot hold prompt and reply; nothing was sent.
        """
        model = self._models[agent]
        require_window(model, messages, max_output_tokens)
        key = self._key(model)
        started = time.perf_counter()
        with self._client.exchange(timeout_seconds, self._told(model)) as exchange:
            try:
                response = self._response(agent, messages, max_output_tokens, temperature, key, exchange)
            except FAILURES as error:
                # The chain is cut: messages and frames below may show the key.
                failure = failure_of(model.name, error, exchange, (key or "", *self._secrets()))
                if exchange.received:
                    failure.received = estimated(model, messages, max_output_tokens, "".join(exchange.received))
                raise failure from None
        return reply_of(model, response, messages, max_output_tokens, time.perf_counter() - started)

    def _response(
        self,
        agent: int,
        messages: Sequence[Message],
        max_output_tokens: int,
        temperature: float,
        key: str | None,
        exchange: Exchange,
    ) -> Any:
        model, address = self._models[agent], self._addresses[agent]
        written = [{"role": m.role, "content": HALF_SURROGATES.sub("\ufffd", m.content)} for m in messages]
        if self._direct and address is not None and speaks(model):
            settings = {"max_tokens": max_output_tokens, "temperature": temperature}
            return complete(self._client, exchange, address, key or NO_KEY, model, written, settings)
        handed = model.litellm_model.startswith(OWN_HTTP)
        watched = handed or model.litellm_model.startswith(PREFIX)
        return litellm.completion(
            **{"temperature": temperature, **model.options},
            model=model.litellm_model,
            messages=written,
            max_tokens=max_output_tokens,
            api_base=address,
            api_key=key,
            timeout=UNREACHED_SECONDS if watched else exchange.remaining_seconds,
            num_retries=0,
            max_retries=0,
            **{"no-log": True},
            **({"client": self._handler} if handed else {}),
        )

    def _secrets(self) -> Iterator[str]:
        """Yield what else in the environment looks like a key; providers echo the one that litellm found there."""
        for name, value in self._environment.items():
            if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET:
                yield value.strip()

    def labelled(self, label: str) -> LitellmPool:
        """Return the same models for one call, whose label local pools are told."""
        same = copy(self)
        same._label = label
        return same

    def _key(self, model: ModelSpec) -> str | None:
        if model.api_key_env is not None:
            key = self._environment.get(model.api_key_env, "").strip()
            if not key:
                raise AuthenticationFailed(f"{model.name}: no key; set the environment variable {model.api_key_env}")
            return key
        # Without this, the SDK would send the provider's own key from the environment to somebody else's address.
        return NO_KEY if model.base_url is not None else None

    def _told(self, model: ModelSpec) -> Mapping[str, str]:
        """Return what a local pool is told in the head of a request; providers are told nothing."""
        local = (model.base_url or "").startswith(LOCAL)
        return {CALL_HEADER: self._label} if self._label and local else {}


def _shared_client() -> WatchedClient:
    # litellm takes an HTTP client for OpenAI-compatible providers from this global and from nowhere else that works
    # for every address; one client for the process keeps connections warm over all campaigns.
    if not isinstance(litellm.client_session, WatchedClient):
        litellm.client_session = WatchedClient()
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        _quieten()
        _warm_up()
    return litellm.client_session


def _quieten() -> None:
    """Hold the libraries to warnings, whatever LITELLM_LOG or OPENAI_LOG say: their debug lines show whole requests."""
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def _warm_up() -> None:
    """Make litellm import what its first call needs: a third of a second, and warnings about its own types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        litellm.completion(
            model="openai/warm-up",
            messages=[{"role": "user", "content": "warm up"}],
            api_key=NO_KEY,
            mock_response="warm",
            **{"no-log": True},
        )
