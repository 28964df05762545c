"""Replies without an answer through the real worker code: turns that count, and rows that say why and what was paid."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.ledger.price import Price
from services.core.protocol.roles import Role
from services.pool.litellm_client import LitellmPool
from services.storage.engine import Database
from tests.support.campaigns import PRICE, small_campaign
from tests.support.fault_doubles import StubEncoders
from tests.support.provider import ScriptedProvider, Step, completion, error, raw, reply, thinking
from tests.support.worker import Bench, bench_of

pytestmark = pytest.mark.usefixtures("ends_clean")

PAID = (11 * PRICE.input_per_million + 3 * PRICE.output_per_million) / 1_000_000
FREE = Decimal(0)


def play(database: Database, provider: ScriptedProvider, **changes: Any) -> tuple[Bench, list[tuple[Any, ...]]]:
    """Play one episode of one Worker turn and return the worker and the rows of its calls."""
    models = tuple(ModelSpec(name, f"openai/{name}", PRICE, provider.url, **changes) for name in ("ada", "bob"))
    protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)
    campaign = small_campaign(pool=models, protocol=protocol)
    with bench_of(database, campaign, StubEncoders(), lambda spec: LitellmPool(spec.pool)) as at:
        at.run()
    statement = "SELECT try, finish_reason, error_kind, cost_usd FROM llm_call ORDER BY try"
    return at, at.query(statement)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (reply(None), [(1, "stop", "empty_reply", PAID), (2, "stop", "empty_reply", PAID)]),
        (reply(" \n"), [(1, "stop", "empty_reply", PAID), (2, "stop", "empty_reply", PAID)]),
        (thinking(None), [(1, "stop", "reasoning_only", PAID), (2, "stop", "reasoning_only", PAID)]),
        (reply("", "length"), [(1, "length", "truncated", PAID)]),
        (reply("<idea>cut", "length"), [(1, "length", None, PAID)]),
        (reply(None, "content_filter"), [(1, "content_filter", "filtered", PAID)]),
        (error(400, "flagged by our content policy"), [(1, None, "ContentRefused", FREE)]),
    ],
    ids=["null", "blank", "reasoning", "length without text", "length", "filtered", "refused"],
)
def test_a_turn_without_an_answer_is_scored(
    database: Database, step: Step, rows: list[tuple[int, str | None, str | None, Decimal]]
) -> None:
    with ScriptedProvider(step) as provider:
        at, calls = play(database, provider)

    assert calls == rows
    assert len(provider.requests) == len(rows)
    assert at.episode()[:3] == ("scored", 0.0, 1)
    assert at.query("SELECT count(*) FROM turn") == [(1,)]


def test_what_cannot_fit_the_window_is_a_free_turn_without_a_request(database: Database) -> None:
    with ScriptedProvider(reply()) as provider:
        at, calls = play(database, provider, context_window=100)

    assert calls == [(1, None, "ContextTooLong", FREE)]
    assert not provider.requests
    assert at.episode()[:3] == ("scored", 0.0, 1)


def test_malformed_replies_are_repeated_and_never_a_reward(database: Database) -> None:
    with ScriptedProvider(raw(json.dumps(completion(choices=[])).encode())) as provider:
        at, calls = play(database, provider)

    assert [(number, kind) for number, _, kind, _ in calls] == [(1, "BadReply"), (2, "BadReply")]
    assert all(cost > PAID for *_, cost in calls), "booked at the reservation, for it may have been charged"
    assert at.episode()[:3] == ("pending", None, 1)


def test_parts_of_the_tokens_are_booked_at_their_prices(database: Database) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 40,
        "total_tokens": 140,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    price = Price(Decimal(1), Decimal(10), Decimal("0.1"), Decimal(5))
    with ScriptedProvider(reply("<answer>1</answer>", usage=usage)) as provider:
        model = ModelSpec("ada", "openai/ada", price, provider.url)
        protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)
        campaign = small_campaign(pool=(model, replace(model, name="bob")), protocol=protocol)
        with bench_of(database, campaign, StubEncoders(), lambda spec: LitellmPool(spec.pool)) as at:
            at.run()

    assert at.query("SELECT cost_usd, prompt_tokens, completion_tokens FROM llm_call") == [
        (Decimal("0.000296"), 100, 40)  # 40 x 1 + 60 x 0.1 + 10 x 10 + 30 x 5, per million
    ]
