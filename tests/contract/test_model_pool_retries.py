"""The one layer that repeats a call, counted at a provider."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from services.core.errors import AttemptInterrupted, PoolError, ProviderUnavailable, RateLimited
from services.core.protocol.ports import Reply
from services.pool.litellm_client import LitellmPool
from services.pool.retry import RetryPolicy, call_with_retries
from tests.support.model_pool import ProviderOf, ask, model
from tests.support.provider import ScriptedProvider, Step, error, raw, reply


class TestRetries:
    def call(
        self, provider: ScriptedProvider, policy: RetryPolicy, waits: list[float], tries: list[int] | None = None
    ) -> Reply:
        pool = LitellmPool([model(provider.url)])

        def attempt(number: int) -> Reply:
            if tries is not None:
                tries.append(number)
            return ask(pool, timeout_seconds=1.0)

        return call_with_retries(attempt, policy, waits.append, random.Random(1))

    def test_a_lasting_failure_costs_exactly_its_tries(self, provider_of: ProviderOf) -> None:
        provider = provider_of(error(500))
        waits: list[float] = []
        tries: list[int] = []

        with pytest.raises(ProviderUnavailable):
            self.call(provider, RetryPolicy(tries=3), waits, tries)

        assert len(provider.requests) == 3
        assert tries == [1, 2, 3]
        assert len(waits) == 2

    @pytest.mark.parametrize("step", [error(401), error(400, "nope"), raw(b"<html>")], ids=["401", "400", "html"])
    def test_a_permanent_failure_costs_one(self, provider_of: ProviderOf, step: Step) -> None:
        provider = provider_of(step)

        with pytest.raises(PoolError):
            self.call(provider, RetryPolicy(tries=3), [])

        assert len(provider.requests) == 1

    def test_every_retry_after_is_honoured(self, provider_of: ProviderOf) -> None:
        waits: list[float] = []
        provider = provider_of(error(429, retry_after="1"), error(429, retry_after="4"), reply("fine"))

        assert self.call(provider, RetryPolicy(), waits).text == "fine"
        assert 1.0 <= waits[0] <= 2.0
        assert 4.0 <= waits[1] <= 6.0

    def test_an_endless_wait_is_refused(self, provider_of: ProviderOf) -> None:
        waits: list[float] = []
        provider = provider_of(error(429, retry_after="3600"))

        with pytest.raises(RateLimited):
            self.call(provider, RetryPolicy(longest_wait_seconds=60), waits)

        assert len(provider.requests) == 1
        assert not waits

    def test_a_wait_can_be_broken_off(self, provider_of: ProviderOf) -> None:
        provider = provider_of(error(500))
        pool = LitellmPool([model(provider.url)])

        def stop(seconds: float) -> None:
            raise AttemptInterrupted("the worker stops")

        with pytest.raises(AttemptInterrupted):
            call_with_retries(lambda _: ask(pool), RetryPolicy(), stop, random.Random(1))

        assert len(provider.requests) == 1

    @pytest.mark.parametrize("tried", [1, 2, 5, 2_000])
    def test_waits_are_bounded_and_differ(self, tried: int) -> None:
        policy = RetryPolicy(tries=10_000, base_seconds=0.5, cap_seconds=8.0)
        rng = random.Random(7)
        waits: Sequence[float | None] = [policy.wait_seconds(tried, ProviderUnavailable("x"), rng) for _ in range(200)]

        top = min(8.0, 0.5 * 2 ** min(tried - 1, 10))
        assert all(wait is not None and 0 <= wait <= top for wait in waits)
        assert max(wait or 0.0 for wait in waits) > 0.8 * top
        assert len(set(waits)) > 150
