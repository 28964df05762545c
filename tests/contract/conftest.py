"""Scripted providers for the contract tests, stopped when the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.model_pool import ProviderOf
from tests.support.provider import ScriptedProvider


@pytest.fixture(params=["direct", "litellm"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI-compatible addresses asked by ourselves, and through litellm."""
    if request.param == "litellm":
        monkeypatch.setattr("services.pool.litellm_client.speaks", lambda model: False)


@pytest.fixture
def provider_of() -> Iterator[ProviderOf]:
    running: list[ScriptedProvider] = []

    def start(*steps: Any) -> ScriptedProvider:
        running.append(ScriptedProvider(*steps).__enter__())
        return running[-1]

    yield start
    for provider in running:
        provider.__exit__()
