"""Replies that come piece by piece: put together as if they had come at once, and what came of one that is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.core.errors import NetworkFailed, PoolError, RateLimited, SpecError
from services.core.ledger.budget import CONVERSATION_OVERHEAD_TOKENS, bound_usage
from services.core.ledger.usage import Usage
from services.core.protocol.ports import ReplyKind
from services.pool.litellm_client import LitellmPool
from tests.support.model_pool import MESSAGES, ProviderOf, ask, model
from tests.support.provider import USAGE, Step, error, raw, reply

PIECES = [f"piece {number} " for number in range(80)]


def piece(text: str | None = None, reason: str | None = None, **delta: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text, **delta}, "finish_reason": reason}]}


def stream(*events: object, cut: bool = False, done: bool = True) -> Step:
    lines = [": keep-alive", *(f"data: {json.dumps(event)}" for event in events), *(["data: [DONE]"] if done else [])]
    return raw("".join(f"{line}\n\n" for line in lines).encode(), "text/event-stream; charset=utf-8", cut=cut)


def pool_of(provider_of: ProviderOf, *steps: Step) -> LitellmPool:
    return LitellmPool([model(provider_of(*steps).url, stream=True)])


def test_a_stream_is_the_reply_that_its_pieces_add_up_to(provider_of: ProviderOf) -> None:
    provider = provider_of(stream(*map(piece, PIECES), piece(None, "stop"), {"choices": [], "usage": USAGE}))
    answer = ask(LitellmPool([model(provider.url, stream=True)]))
    assert (answer.text, answer.finish_reason, answer.usage) == ("".join(PIECES), "stop", Usage(11, 3))
    assert provider.requests[0].body["stream"] is True
    assert provider.requests[0].body["stream_options"] == {"include_usage": True}


def test_reasoning_stays_apart_and_a_missing_usage_is_estimated(provider_of: ProviderOf) -> None:
    step = stream(piece(None, None, reasoning_content="surely 4"), piece("", "length"))
    answer = ask(pool_of(provider_of, step))
    assert (answer.text, answer.kind, answer.reasoned, answer.usage.estimated) == ("", ReplyKind.TRUNCATED, True, True)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_cut_stream_has_cost_what_had_come_and_is_no_reply(provider_of: ProviderOf, orderly: bool) -> None:
    """Half of the body arrives; or the body ends where the reply does not."""
    cut = stream(*map(piece, PIECES[:40]), done=False) if orderly else stream(*map(piece, PIECES), cut=True)
    with pytest.raises(NetworkFailed) as failed:
        ask(pool_of(provider_of, cut))
    used, most = failed.value.received, bound_usage(MESSAGES, 500)
    assert used is not None
    assert (used.prompt_tokens, used.estimated) == (most.prompt_tokens, True)
    came = len("".join(PIECES[:40]).encode()) + CONVERSATION_OVERHEAD_TOKENS
    assert 20 <= used.completion_tokens <= min(came, 500)


@pytest.mark.parametrize(
    ("event", "words"),
    [({"error": {"message": "overloaded"}}, "overloaded"), ([1], "1"), ({"choices": 7}, "7"), ({"choices": [7]}, "7")],
)
def test_an_event_that_is_no_piece_ends_the_call(provider_of: ProviderOf, event: object, words: str) -> None:
    with pytest.raises(PoolError, match=words) as failed:
        ask(pool_of(provider_of, stream(piece("so far"), event, piece("and more", "stop"))))
    assert failed.value.received is not None


def test_refusals_and_whole_replies_are_read_as_ever(provider_of: ProviderOf) -> None:
    pool = pool_of(provider_of, error(429, "slow down", retry_after="7"), reply("all at once"))
    with pytest.raises(RateLimited) as limited:
        ask(pool)
    assert (limited.value.retry_after_seconds, limited.value.received) == (7.0, None)
    assert ask(pool).text == "all at once"


def test_only_who_can_be_asked_for_a_stream_is(provider_of: ProviderOf) -> None:
    with pytest.raises(SpecError, match=r"pool\.gpt-5\.stream"):
        LitellmPool([model(None, "gpt-5", stream=True)])
