"""What identifies a call: everything that its answer's distribution depends on, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from services.core.campaign import ModelLimits, ModelSpec, ProtocolSpec
from services.core.ledger.price import Price
from services.core.protocol import asked
from services.core.protocol.asked import answer_key, call_label, messages_digest
from services.core.protocol.ports import Message

MODEL = ModelSpec("able", "openai/gpt", Price(Decimal(1), Decimal(1)), options={"reasoning_effort": "low"})
MESSAGES = messages_digest([Message("system", "Be right."), Message("user", "1 + 1?")])


def key(model: ModelSpec = MODEL, protocol: ProtocolSpec | None = None, **changes: Any) -> str:
    return answer_key(model, protocol or ProtocolSpec(), **{"messages": MESSAGES, "sample": (3, 0), **changes})


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(replace(MODEL, litellm_model="openai/other")),
        lambda: key(replace(MODEL, base_url="https://other.example")),
        lambda: key(replace(MODEL, options={"reasoning_effort": "high"})),
        lambda: key(protocol=ProtocolSpec(temperature=0.7)),
        lambda: key(protocol=ProtocolSpec(max_output_tokens=64)),
        lambda: key(messages=messages_digest([Message("user", "1 + 1?")])),
        lambda: key(sample=(4, 0)),
        lambda: key(sample=(3, 1)),
        lambda: key(scope=(1, 2)),
    ],
    ids=["model", "address", "options", "temperature", "length", "messages", "replicate", "repetition", "scope"],
)
def test_another_draw_or_distribution_has_another_key(other: Any) -> None:
    assert other() != key()


def test_what_does_not_change_the_answer_does_not_change_the_key() -> None:
    same = replace(MODEL, name="x", price=Price(Decimal(2), Decimal(2)), limits=ModelLimits(1), api_key_env="KEY")
    assert key(same, ProtocolSpec(max_turns=2, call_timeout_seconds=9.0)) == key()


def test_another_version_of_the_prompts_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(asked, "PROMPT_VERSION", 99)
    assert key() != before


def test_messages_are_told_apart_by_their_parts_and_hostile_text_has_a_digest() -> None:
    texts = ["ab", "a\x00b", "a\ud800b", "a\u202eb", "a\nb"]
    digests = {messages_digest([Message("user", text)]) for text in texts}
    assert len(digests) == len(texts)
    assert messages_digest([Message("user", "a\ud800b")]) == messages_digest([Message("user", "a\ufffdb")])
    assert messages_digest([Message("user", "a"), Message("user", "b")]) != messages_digest([Message("user", "ab")])


def test_labels_differ_between_calls_of_a_campaign() -> None:
    places = [(g, "sample", c, "training", r, t) for g in (1, 11) for c in (1, 11) for r in (1, 11) for t in (1, 11)]
    labels = {call_label(*place) for place in places}
    assert len(labels) == 16
    assert call_label(3, "mean", 0, "validation", 2, 1) == "g3/mean0/validation2/t1"
