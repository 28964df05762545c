"""Tokens as we count them: whether a conversation fits a model's window, and what a reply used that nobody counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import litellm

from services.core.campaign import ModelSpec
from services.core.errors import ContextTooLong
from services.core.ledger.budget import CONVERSATION_OVERHEAD_TOKENS, MESSAGE_OVERHEAD_TOKENS, bound_usage
from services.core.ledger.usage import Usage
from services.core.protocol.ports import Message

# The encoder's work grows faster than a piece's length when the piece has no blanks.
PIECE_CHARACTERS = 2048
# No text that means anything has more bytes to a token; beyond it there is no need to count.
BYTES_PER_TOKEN = 16
# Options that make a model think where nobody sees it.
HIDDEN_WORK = frozenset({"reasoning_effort", "thinking", "reasoning"})


def require_window(model: ModelSpec, messages: Sequence[Message], max_output_tokens: int) -> None:
    """Raise ContextTooLong when prompt and reply do not fit the model's window together.

    The count is that of cl100k_base, which differs from other models' own by a tenth or two. A call that passes here
    and is too long all the same is refused by the provider.
    """
    if model.context_window is None:
        return
    bound = bound_usage(messages, max_output_tokens)
    if bound.total <= model.context_window:
        return
    room = model.context_window - max_output_tokens
    if bound.prompt_tokens <= BYTES_PER_TOKEN * room:
        tokens = counted(messages)
        if tokens <= room:
            return
        size = f"about {tokens}"
    else:
        size = f"more than {bound.prompt_tokens // BYTES_PER_TOKEN}"
    raise ContextTooLong(
        f"{model.name}: the conversation has {size} tokens and may be answered with {max_output_tokens}, "
        f"which do not fit its context_window of {model.context_window}; nothing was sent",
        foreseen=True,
    )


def counted(messages: Sequence[Message]) -> int:
    """Return about how many tokens a prompt has."""
    encoding: Any = litellm.encoding
    pieces = [
        message.content[start : start + PIECE_CHARACTERS]
        for message in messages
        for start in range(0, len(message.content), PIECE_CHARACTERS)
    ]
    tokens = sum(len(encoding.encode(_encodable(piece), disallowed_special=())) for piece in pieces)
    return tokens + MESSAGE_OVERHEAD_TOKENS * len(messages)


def estimated(model: ModelSpec, messages: Sequence[Message], max_output_tokens: int, text: str) -> Usage:
    """Return what a reply used at most: its bytes bound its tokens, unless the model may have thought unseen.

    Args:
        model: that replied.
        messages: the prompt.
        max_output_tokens: no reply has more.
        text: all that came, reasoning included.
    """
    bound = bound_usage(messages, max_output_tokens)
    if HIDDEN_WORK & model.options.keys() or model.price.reasoning_per_million is not None:
        return bound
    seen = len(text.encode("utf-8", "surrogatepass")) + CONVERSATION_OVERHEAD_TOKENS
    return Usage(bound.prompt_tokens, min(seen, max_output_tokens), estimated=True)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
