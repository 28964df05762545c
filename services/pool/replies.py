"""From litellm's response to the product's reply: text, why it ended, and tokens that can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.core.campaign import ModelSpec
from services.core.errors import BadReply
from services.core.ledger.usage import Usage
from services.core.protocol.answers import without_reasoning
from services.core.protocol.ports import Message, Reply
from services.pool.counting import estimated

# No window is larger; what is, is no count of tokens.
ENDINGS = {"max_tokens": "length", "max_output_tokens": "length", "content_filtered": "content_filter"}
LARGEST_COUNT = 100_000_000


def reply_of(
    model: ModelSpec, response: Any, messages: Sequence[Message], max_output_tokens: int, latency_seconds: float
) -> Reply:
    """Return the first choice of a response.

    Raises:
        BadReply: it has none, or its content is no text; it was charged for, perhaps.
    """
    try:
        choice = response.choices[0]
        text, reason = choice.message.content, getattr(choice, "finish_reason", None)
    except (AttributeError, IndexError, TypeError):
        raise BadReply(f"{model.name}: the reply has no choices", billed_unknown=True) from None
    if text is not None and not isinstance(text, str):
        kind = type(text).__name__
        raise BadReply(f"{model.name}: the reply's content is no text but a {kind}", billed_unknown=True)
    text, thoughts = _without_thoughts(text or "", choice.message)
    usage = believable(getattr(response, "usage", None), bool(text or thoughts))
    usage = usage or estimated(model, messages, max_output_tokens, text + thoughts)
    reason = ENDINGS.get(str(reason), str(reason or ""))
    return Reply(text, reason, usage, latency_seconds, bool(thoughts.strip()))


def _without_thoughts(text: str, message: Any) -> tuple[str, str]:
    """Return the text without a block of reasoning before it, and all reasoning; servers name its field differently."""
    said = without_reasoning(text)
    fields = (getattr(message, name, None) for name in ("reasoning_content", "reasoning"))
    thoughts = [field for field in fields if isinstance(field, str)]
    return said, "".join([*thoughts[:1], text[: len(text) - len(said)]])


def believable(reported: Any, said_something: bool) -> Usage | None:
    """Return the provider's counts; None when it gave none, for which litellm writes 0, or nonsense."""
    prompt, completion = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    if not prompt or completion is None or (completion == 0 and said_something):
        return None
    cached = _count(getattr(reported, "prompt_tokens_details", None), "cached_tokens") or 0
    reasoning = _count(getattr(reported, "completion_tokens_details", None), "reasoning_tokens") or 0
    # Some providers count reasoning beside the completion instead of within.
    if reasoning and _count(reported, "total_tokens") == prompt + completion + reasoning:
        completion += reasoning
    if reasoning > completion:
        return None
    # A share of the cache that cannot be is not granted: the whole prompt is booked at its full price.
    return Usage(prompt, completion, False, cached if cached <= prompt else 0, reasoning)


def _count(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT
    return value if usable else None
