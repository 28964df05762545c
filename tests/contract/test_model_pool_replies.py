"""Replies that came: what they are worth, and tokens that can be believed."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from services.core.campaign import ModelSpec
from services.core.errors import (
    AuthenticationFailed,
    BadReply,
    CallTimedOut,
    ContextTooLong,
    NetworkFailed,
    PoolError,
    ProviderUnavailable,
    RateLimited,
)
from services.core.ledger.budget import bound_usage
from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.protocol.ports import Message, ReplyKind
from services.pool.litellm_client import LitellmPool
from tests.support.model_pool import MESSAGES, PRICE, ProviderOf, ask, model
from tests.support.provider import ScriptedProvider, Step, error, raw, reply, thinking

EXACT = bound_usage(MESSAGES, 500).prompt_tokens
LONG = "x" * 100_000


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("step", "text", "reason", "kind", "fault"),
    [
        (reply("fine"), "fine", "stop", ReplyKind.OK, None),
        (reply(None), "", "stop", ReplyKind.EMPTY, "empty_reply"),
        (reply(""), "", "stop", ReplyKind.EMPTY, "empty_reply"),
        (reply(" \n"), " \n", "stop", ReplyKind.EMPTY, "empty_reply"),
        (thinking(None), "", "stop", ReplyKind.REASONING_ONLY, "reasoning_only"),
        (thinking(" "), " ", "stop", ReplyKind.REASONING_ONLY, "reasoning_only"),
        (thinking("fine"), "fine", "stop", ReplyKind.OK, None),
        (reply("<think>surely 4</think>"), "", "stop", ReplyKind.REASONING_ONLY, "reasoning_only"),
        (reply("cut", "length"), "cut", "length", ReplyKind.TRUNCATED, None),
        (reply("", "length"), "", "length", ReplyKind.TRUNCATED, "truncated"),
        (thinking(None, "length"), "", "length", ReplyKind.TRUNCATED, "truncated"),
        (reply(None, "content_filter"), "", "content_filter", ReplyKind.FILTERED, "filtered"),
        (reply("half", "content_filter"), "half", "content_filter", ReplyKind.FILTERED, "filtered"),
        (reply(f"a\0b\u202e{LONG}"), f"a\0b\u202e{LONG}", "stop", ReplyKind.OK, None),
    ],
)
def test_a_reply_is_told_from_one_without_an_answer(
    provider_of: ProviderOf, step: Step, text: str, reason: str, kind: ReplyKind, fault: str | None
) -> None:
    answer = ask(LitellmPool([model(provider_of(step).url)]))

    assert (answer.text, answer.finish_reason, answer.kind, answer.fault) == (text, reason, kind, fault)
    assert answer.usage == Usage(11, 3)


def counts(prompt: object, completion_tokens: object, total: object = 0, **details: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion_tokens, "total_tokens": total, **details}


def parts(cached: object, reasoning: object) -> dict[str, Any]:
    return {
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("usage", "booked"),
    [
        (counts(20, 8, 28, **parts(12, 5)), Usage(20, 8, False, 12, 5)),
        (counts(20, 8, 28, **parts(None, None)), Usage(20, 8)),
        (counts(20, 8, 28, **parts(-1, 0)), Usage(20, 8)),
        (counts(20, 8, 28, **parts(21, 8)), Usage(20, 8, False, 0, 8)),
        (counts(20, 8, 58, **parts(0, 30)), Usage(20, 38, False, 0, 30)),  # counted beside the completion
    ],
    ids=["parts", "null", "negative", "more cached than sent", "reasoning on top"],
)
def test_cached_and_reasoning_tokens_are_parts_of_their_wholes(
    provider_of: ProviderOf, usage: object, booked: Usage
) -> None:
    assert ask(LitellmPool([model(provider_of(reply(usage=usage)).url)])).usage == booked


NO_COUNTS: list[object] = [
    ...,
    None,
    {},
    counts(0, 0),
    counts(-5, 2, -3),
    counts(7, 0, 7),
    counts(10**15, 3),
    counts(20, 8, 28, **parts(0, 30)),
]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("usage", NO_COUNTS, ids=str)
def test_counts_that_are_missing_or_nonsense_are_our_own(provider_of: ProviderOf, usage: object) -> None:
    answer = ask(LitellmPool([model(provider_of(reply("hello", usage=usage)).url)]))

    assert answer.usage == Usage(EXACT, len("hello") + 64, estimated=True)


def test_a_model_that_thinks_unseen_is_booked_at_its_limit(provider_of: ProviderOf) -> None:
    url = provider_of(reply("hello", usage=...)).url
    hidden = model(url, options={"extra_body": {}, "reasoning_effort": "high"})

    assert ask(LitellmPool([hidden]), max_output_tokens=77).usage == bound_usage(MESSAGES, 77)


def test_parts_have_prices_of_their_own_and_an_estimate_the_dearer_one() -> None:
    price = Price(Decimal("0.3"), Decimal("2.5"), Decimal("0.03"), Decimal("3.5"))

    # 600 x 0.3 + 400 x 0.03 + 60 x 2.5 + 40 x 3.5 and 1000 x 0.3 + 100 x 3.5, per million
    assert price.cost(Usage(1000, 100, False, 400, 40)) == Decimal("0.000482")
    assert price.cost(Usage(1000, 100, estimated=True)) == Decimal("0.00065")
    assert PRICE.cost(Usage(1000, 100, False, 1000, 100)) == PRICE.cost(Usage(1000, 100))


def test_half_surrogates_do_not_stop_a_request(provider_of: ProviderOf) -> None:
    provider = provider_of(reply())

    ask(LitellmPool([model(provider.url)]), messages=[Message("user", "a\ud800b")])

    assert provider.requests[0].body["messages"] == [{"role": "user", "content": "a\ufffdb"}]


class TestWindow:
    def test_what_cannot_fit_is_not_sent(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())
        pool = LitellmPool([model(provider.url, context_window=1000)])

        for words in (3000, 300_000):
            with pytest.raises(ContextTooLong, match="context_window of 1000; nothing was sent") as caught:
                ask(pool, messages=[Message("user", "word " * words)])
            assert caught.value.foreseen
            assert not caught.value.billed_unknown

        assert not provider.requests

    def test_tokens_are_counted_and_not_bytes(self, provider_of: ProviderOf) -> None:
        pool = LitellmPool([model(provider_of(reply()).url, context_window=1000)])

        assert ask(pool, messages=[Message("user", "word " * 400)]).text  # 2,000 bytes, about 400 tokens
        with pytest.raises(ContextTooLong):
            ask(pool, messages=[Message("user", "word " * 400)], max_output_tokens=700)

    def test_special_tokens_and_half_surrogates_are_text(self, provider_of: ProviderOf) -> None:
        pool = LitellmPool([model(provider_of(reply()).url, context_window=1000)])

        assert ask(pool, messages=[Message("user", "<|endoftext|>\ud800 " * 40)]).text


CLAUDE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "able",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 4, "output_tokens": 3, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0},
}
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "hello"}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 11,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 1,
        "totalTokenCount": 14,
    },
}
NATIVE = [("anthropic", CLAUDE, Usage(11, 3, False, 7)), ("gemini", GEMINI, Usage(11, 3, False, 0, 1))]


@pytest.mark.filterwarnings("ignore")  # litellm's own, at the first import of a provider's types
class TestProvidersWithTheirOwnDialect:
    """Reached through litellm's own HTTP code, and held to the same deadline and facts."""

    @pytest.mark.parametrize(("name", "body", "usage"), NATIVE, ids=[one[0] for one in NATIVE])
    def test_answers(self, provider_of: ProviderOf, name: str, body: object, usage: Usage) -> None:
        provider = provider_of(raw(json.dumps(body).encode()))

        answer = ask(LitellmPool([spoken(name, provider)]))

        assert (answer.text, answer.usage, answer.kind) == ("hello", usage, ReplyKind.OK)
        assert len(provider.requests) == 1

    @pytest.mark.parametrize("name", ["anthropic", "gemini"])
    @pytest.mark.parametrize(
        ("step", "kind", "billed"),
        [
            (error(500), ProviderUnavailable, False),
            (error(429, retry_after="3"), RateLimited, False),
            (error(401), AuthenticationFailed, False),
            (error(400, "prompt is too long: 9000 tokens > 8000 maximum"), ContextTooLong, False),
            (raw(b"<html>"), BadReply, True),
            (raw(b'{"id": "m", "type": "message"}', cut=True), NetworkFailed, True),
            (raw(json.dumps(CLAUDE).encode(), drip_seconds=0.1), CallTimedOut, True),
        ],
        ids=["500", "429", "401", "context", "html", "cut", "one byte at a time"],
    )
    def test_fails_as_the_others_do(
        self, provider_of: ProviderOf, name: str, step: Step, kind: type[PoolError], billed: bool
    ) -> None:
        provider = provider_of(step)

        with pytest.raises(PoolError) as caught:
            ask(LitellmPool([spoken(name, provider)]), timeout_seconds=1.0)

        assert type(caught.value) is kind, caught.value
        assert caught.value.billed_unknown is billed
        assert len(provider.requests) == 1
        if isinstance(caught.value, RateLimited):
            assert caught.value.retry_after_seconds == 3.0


def spoken(name: str, provider: ScriptedProvider) -> ModelSpec:
    address = provider.url.removesuffix("/v1")
    return ModelSpec("able", f"{name}/able", PRICE, address)
