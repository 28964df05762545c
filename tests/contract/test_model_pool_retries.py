"""The one layer that repeats a call, counted at a provider."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from services.core.errors import (
    AttemptInterrupted,
    ContextTooLong,
    PoolError,
    ProviderUnavailable,
    RateLimited,
    TransientPoolError,
)
from services.core.protocol.ports import Message, Reply, ReplyKind
from services.pool.litellm_client import LitellmPool
from services.pool.retry import RetryPolicy, call_with_retries
from tests.support.model_pool import ProviderOf, ask, model
from tests.support.provider import ScriptedProvider, Step, completion, error, raw, reply, thinking


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

    @pytest.mark.parametrize("step", [error(401), error(404), error(400, "nope")], ids=["401", "404", "400"])
    def test_a_permanent_failure_costs_one(self, provider_of: ProviderOf, step: Step) -> None:
        provider = provider_of(step)

        with pytest.raises(PoolError):
            self.call(provider, RetryPolicy(tries=3), [])

        assert len(provider.requests) == 1

    @pytest.mark.parametrize(
        "step",
        [error(500), raw(b"<html>"), raw(json.dumps(completion(choices=[])).encode()), raw(b'{"id": "x"', cut=True)],
        ids=["500", "html", "no choices", "half json"],
    )
    def test_what_may_pass_costs_its_tries(self, provider_of: ProviderOf, step: Step) -> None:
        provider = provider_of(step)

        with pytest.raises(TransientPoolError):
            self.call(provider, RetryPolicy(tries=3), [])

        assert len(provider.requests) == 3

    def test_a_malformed_reply_may_be_followed_by_a_good_one(self, provider_of: ProviderOf) -> None:
        provider = provider_of(raw(b"<html>"), raw(b'{"id": "x"', cut=True), reply("fine"))

        assert self.call(provider, RetryPolicy(), []).text == "fine"
        assert len(provider.requests) == 3

    @pytest.mark.parametrize(
        ("step", "kind", "requests"),
        [
            (reply(None), ReplyKind.EMPTY, 2),
            (reply(" \n"), ReplyKind.EMPTY, 2),
            (thinking(None), ReplyKind.REASONING_ONLY, 2),
            (reply("cut", "length"), ReplyKind.TRUNCATED, 1),
            (reply("", "length"), ReplyKind.TRUNCATED, 1),
            (reply(None, "content_filter"), ReplyKind.FILTERED, 1),
            (error(400, "flagged by our content policy"), ReplyKind.FILTERED, 1),
        ],
        ids=["null", "blank", "reasoning", "length", "length without text", "filtered", "refused"],
    )
    def test_a_turn_without_an_answer_is_a_turn(
        self, provider_of: ProviderOf, step: Step, kind: ReplyKind, requests: int
    ) -> None:
        provider = provider_of(step)

        answer = self.call(provider, RetryPolicy(tries=3), [])

        assert answer.kind is kind
        assert len(provider.requests) == requests

    def test_an_empty_reply_may_be_followed_by_a_good_one(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply(None), reply("fine"))
        waits: list[float] = []

        assert self.call(provider, RetryPolicy(), waits).text == "fine"
        assert len(waits) == 1

    def test_empty_replies_and_failures_share_the_tries(self, provider_of: ProviderOf) -> None:
        provider = provider_of(error(500), error(500), reply(None))

        assert self.call(provider, RetryPolicy(tries=3), []).kind is ReplyKind.EMPTY
        assert len(provider.requests) == 3

    def test_a_conversation_that_cannot_fit_is_an_empty_turn_without_a_request(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())
        pool = LitellmPool([model(provider.url, context_window=600)])
        long = [Message("user", "word " * 3000)]
        waits: list[float] = []

        answer = call_with_retries(lambda _: ask(pool, messages=long), RetryPolicy(), waits.append, random.Random(1))

        assert (answer.text, answer.finish_reason, answer.usage.total) == ("", "context_window", 0)
        assert (provider.requests, waits) == ([], [])

    def test_the_providers_word_on_the_window_is_a_failure(self, provider_of: ProviderOf) -> None:
        provider = provider_of(error(400, "maximum context length is 8192 tokens", "context_length_exceeded"))

        with pytest.raises(ContextTooLong):
            self.call(provider, RetryPolicy(), [])

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
