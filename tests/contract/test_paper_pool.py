"""The shipped pool of the paper sends its seven models the authors' settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.config import campaign as campaigns
from services.core.campaign import ModelSpec
from services.pool.litellm_client import LitellmPool
from tests.contract.test_model_pool_replies import CLAUDE, GEMINI
from tests.support.model_pool import MESSAGES, ProviderOf
from tests.support.provider import Logged, ScriptedProvider, Step, raw, reply

SHIPPED = Path(__file__).parents[2] / "infra" / "campaigns"
KEYS = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2", "GEMINI_API_KEY": "sk-3"}
WANTED: dict[str, dict[str, Any]] = {
    "gpt-5": {"max_completion_tokens": 4096, "temperature": 1, "reasoning_effort": "minimal"},
    "claude-sonnet-4": {"max_tokens": 4096, "temperature": 0.1, "thinking": None},
    "gemini-2.5-pro": {"max_output_tokens": 4096, "temperature": 0.1, "thinkingBudget": 128},
    "deepseek-r1-distill-qwen-32b": {"max_tokens": 4096, "temperature": 0.1, "top_p": None},
    "gemma-3-27b-it": {"max_tokens": 4096, "temperature": 0.1, "top_p": None},
    "qwen3-32b-reasoning": {"max_tokens": 4096, "temperature": 0.1, "top_p": None, "chat_template_kwargs": None},
    "qwen3-32b-direct": {
        "max_tokens": 4096,
        "top_p": 0.8,
        "top_k": 20,
        "presence_penalty": 1.0,
        "chat_template_kwargs": {"enable_thinking": False},
    },
}
FULL_POWER: dict[str, dict[str, Any]] = {
    "gpt-5": {"max_completion_tokens": 64000, "temperature": 1, "reasoning_effort": "high"},
    "claude-sonnet-4": {"max_tokens": 64000, "temperature": 1, "thinking": {"type": "enabled", "budget_tokens": 32768}},
    "gemini-2.5-pro": {"max_output_tokens": 64000, "temperature": 1, "thinkingBudget": 32768},
}


def in_its_dialect(request: Logged) -> Step:
    if request.path.endswith("/messages"):
        return raw(json.dumps(CLAUDE).encode())
    return raw(json.dumps(GEMINI).encode()) if "generateContent" in request.path else reply()


def elsewhere(model: ModelSpec, provider: ScriptedProvider) -> ModelSpec:
    own = not model.litellm_model.startswith("openai/")
    return replace(model, base_url=provider.url.removesuffix("/v1") if own else provider.url)


def settings(body: dict[str, Any]) -> dict[str, Any]:
    inner = body.get("generationConfig", {})
    return {**body, **inner, **inner.get("thinkingConfig", {})}


@pytest.mark.filterwarnings("ignore")  # litellm's own, at the first import of a provider's types
@pytest.mark.parametrize(("name", "wanted"), [("paper", WANTED), ("paper-full-power", FULL_POWER)])
def test_each_model_gets_its_settings(provider_of: ProviderOf, name: str, wanted: dict[str, dict[str, Any]]) -> None:
    file = campaigns.load(SHIPPED / f"{name}.yaml", {"TRINITY_BENCHMARK_DIR": "/sets"})
    protocol, provider = campaigns.protocol(file), provider_of(in_its_dialect)
    models = [elsewhere(model, provider) for model in campaigns.models(file)]
    assert [model.name for model in models] == list(wanted)
    pool = LitellmPool(models, environment=KEYS)

    for agent, model in enumerate(models):
        answer = pool.complete(
            agent,
            MESSAGES,
            max_output_tokens=protocol.max_output_tokens,
            temperature=protocol.temperature,
            timeout_seconds=20.0,
        )
        sent = settings(provider.requests[-1].body)
        assert answer.text == "hello"
        assert {key: sent.get(key) for key in wanted[model.name]} == wanted[model.name], model.name

    assert len(provider.requests) == len(models)
