from __future__ import annotations

from typing import Any

import pytest

from services.coordinator import as_transcript
from services.core.errors import SpecError
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_a_chat_of_one_question_is_a_campaigns_first_turn() -> None:
    system = {"role": "system", "content": "You are helpful."}
    assert as_transcript([system, user("1 + 1")]) == Transcript("1 + 1")


def test_what_came_before_is_context_and_what_follows_is_work() -> None:
    found = as_transcript([user("1 + 1"), assistant("2"), user("and plus 7?"), assistant("8"), assistant("no, 9")])
    assert found.query == "and plus 7?"
    assert [(item.number, item.role, item.text) for item in found.items] == [
        (1, Role.THINKER, "user: 1 + 1"),
        (2, Role.THINKER, "assistant: 2"),
        (3, Role.WORKER, "8"),
        (4, Role.WORKER, "no, 9"),
    ]


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "1 +"}, {"type": "text", "text": "1"}]
    assert as_transcript([{"role": "user", "content": parts}]) == Transcript("1 +\n1")


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        ([], "messages"),
        ([assistant("2")], "messages"),
        ([user("1"), {"role": "tool", "content": "2"}], "messages.1.role"),
        ([{"content": "2"}], "messages.0.role"),
        ([{"role": "user", "content": None}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "messages.0.content"),
        (["1 + 1"], "messages.0"),
    ],
)
def test_what_is_no_chat_is_named(messages: Any, path: str) -> None:
    with pytest.raises(SpecError) as caught:
        as_transcript(messages)
    assert caught.value.path == path
