"""Scripted providers for the contract tests, stopped when the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.model_pool import ProviderOf
from tests.support.provider import ScriptedProvider


@pytest.fixture
def provider_of() -> Iterator[ProviderOf]:
    running: list[ScriptedProvider] = []

    def start(*steps: Any) -> ScriptedProvider:
        running.append(ScriptedProvider(*steps).__enter__())
        return running[-1]

    yield start
    for provider in running:
        provider.__exit__()
