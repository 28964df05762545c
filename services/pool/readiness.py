"""What can be known about a model before it is called: key, provider, options, price. Nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import litellm

from services.core.campaign import ModelSpec
from services.pool.failures import masked

PER_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Readiness:
    """Sentences about one model.

    Attributes:
        missing: what keeps every call from succeeding.
        notes: what a person may want to know.
    """

    missing: tuple[str, ...]
    notes: tuple[str, ...]


def readiness(
    model: ModelSpec, environment: Mapping[str, str], max_output_tokens: int, temperature: float
) -> Readiness:
    """Look at one model's configuration as a worker with this environment would use it."""
    provider = _provider(model)
    if provider is None:
        known = "openai/NAME with a base_url, anthropic/NAME, gemini/NAME, ..."
        return Readiness((f"litellm knows no provider for {model.litellm_model}; write {known}",), ())
    missing = [*_key(model, provider, environment), *_options(model, provider, max_output_tokens, temperature)]
    return Readiness(tuple(missing), tuple(_notes(model, max_output_tokens)))


def _provider(model: ModelSpec) -> str | None:
    litellm.suppress_debug_info = True
    try:
        return str(litellm.get_llm_provider(model.litellm_model)[1])
    except litellm.exceptions.BadRequestError:
        return None


def _key(model: ModelSpec, provider: str, environment: Mapping[str, str]) -> list[str]:
    if model.api_key_env is not None:
        if environment.get(model.api_key_env, "").strip():
            return []
        return [f"the environment variable {model.api_key_env} is not set"]
    if model.base_url is not None:
        return []
    wanted = _variables_of(model)
    if not wanted or any(environment.get(name, "").strip() for name in wanted):
        return []
    return [f"no key: set {' or '.join(wanted)}, and name it in api_key_env (provider {provider})"]


def _variables_of(model: ModelSpec) -> list[str]:
    found: Any = litellm.validate_environment(model.litellm_model)
    return [str(name) for name in found["missing_keys"]]


def _options(model: ModelSpec, provider: str, max_output_tokens: int, temperature: float) -> list[str]:
    name = model.litellm_model.partition("/")[2] or model.litellm_model
    asked = {"temperature": temperature, **model.options, "max_tokens": max_output_tokens}
    try:
        litellm.utils.get_optional_params(model=name, custom_llm_provider=provider, **asked)
    except Exception as error:  # noqa: BLE001 - litellm raises whatever its code for the provider raises
        return [f"the provider does not take these options: {masked(str(error), ())}"]
    return []


def _notes(model: ModelSpec, max_output_tokens: int) -> list[str]:
    price, facts = model.price, _facts(model)
    notes = []
    if not price.input_per_million and not price.output_per_million:
        notes.append("its price is 0: no budget in USD will ever stop it")
    if facts is None:
        # A name behind somebody's own address says nothing about what it costs there.
        if model.base_url is None:
            notes.append("litellm's list does not have it; price and context_window cannot be compared")
        return notes
    listed = tuple(_per_million(facts.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
    if None not in listed and listed != (price.input_per_million, price.output_per_million):
        notes.append(
            f"price {price.input_per_million} and {price.output_per_million} USD per million tokens, "
            f"litellm's list has {listed[0]} and {listed[1]}; check it with the provider"
        )
    limit = facts.get("max_output_tokens")
    if isinstance(limit, int) and max_output_tokens > limit:
        notes.append(f"protocol.max_output_tokens is {max_output_tokens}, the model's own limit {limit}")
    if model.context_window is None and isinstance(facts.get("max_input_tokens"), int):
        notes.append(f"no context_window; litellm's list has {facts['max_input_tokens']} tokens of input")
    return notes


def _facts(model: ModelSpec) -> Mapping[str, Any] | None:
    if model.base_url is not None:
        return None
    prices: Mapping[str, Mapping[str, Any]] = litellm.model_cost
    return prices.get(model.litellm_model) or prices.get(model.litellm_model.partition("/")[2])


def _per_million(price: object) -> Decimal | None:
    return (Decimal(str(price)) * PER_MILLION).normalize() + 0 if isinstance(price, int | float) else None
