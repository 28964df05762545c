"""Bounds from above, for reserving before spending."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from services.core.ledger.price import Price
from services.core.ledger.usage import Usage
from services.core.protocol.ports import Message

# Chat templates wrap each message in control tokens and a role name, and may open with a default system prompt.
MESSAGE_OVERHEAD_TOKENS = 16
CONVERSATION_OVERHEAD_TOKENS = 64


def bound_usage(messages: Sequence[Message], max_output_tokens: int) -> Usage:
    """Return the largest usage a call can have, marked as estimated.

    A byte-level tokenizer makes at most one token of a UTF-8 byte, and other tokenizers fall back to bytes, so the
    prompt's bytes bound its tokens; typical English is a quarter of that.
    """
    text = sum(len(message.content.encode("utf-8", "surrogatepass")) for message in messages)
    overhead = CONVERSATION_OVERHEAD_TOKENS + MESSAGE_OVERHEAD_TOKENS * len(messages)
    return Usage(text + overhead, max_output_tokens, estimated=True)


def bound_tokens(messages: Sequence[Message], max_output_tokens: int) -> int:
    """Return the largest number of prompt and completion tokens of a call."""
    return bound_usage(messages, max_output_tokens).total


def largest_call_cost(price: Price, messages: Sequence[Message], max_output_tokens: int) -> Decimal:
    """Return the largest cost of a call in USD."""
    return price.cost(bound_usage(messages, max_output_tokens))
