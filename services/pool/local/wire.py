"""The part of OpenAI's chat protocol that the local pools speak: requests in, completions and errors out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from services.core.local_pool import Faults, Latency
from services.core.protocol.asked import split_sample
from services.core.protocol.ports import Message

BYTES_PER_TOKEN = 4
# Names the call within its campaign, so that a recording can tell apart two that ask the same.
CALL_HEADER = "X-Trinity-Call"


class RefusalError(Exception):
    """The request is answered with an error.

    Args:
        status: HTTP status.
        code: short word in the error object.
        message: sentence for the reader.
        retry_after_seconds: sent as ``Retry-After`` when given.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True)
class ChatRequest:
    """A checked request; ``max_tokens`` is None when it sets no bound, ``label`` names the call if it said so."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int | None
    label: str = ""

    @property
    def call(self) -> str:
        """Return which call of its campaign it is; empty when it did not say."""
        return split_sample(self.label)[0]

    @property
    def sample(self) -> int:
        """Return which answer to the same messages it wants, from 0."""
        return split_sample(self.label)[1]


class ServedPool(Protocol):
    """What the server needs of a pool. ``complete`` is called by many threads."""

    name: str
    models: tuple[str, ...]
    latency: Latency
    faults: Faults
    seed: int

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        """Return the completion object; raise RefusalError for a request it cannot answer."""
        ...


def read_chat_request(body: bytes, label: str = "") -> ChatRequest:
    """Parse the body of a chat completion request; raise RefusalError (400) when it is none."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise RefusalError(400, "invalid_json", f"the body is no JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("model"), str):
        raise RefusalError(400, "invalid_request", "wanted an object with a text 'model' and a list 'messages'")
    if document.get("stream"):
        raise RefusalError(400, "unsupported", "streaming is not offered; leave 'stream' out")
    bound = document.get("max_completion_tokens", document.get("max_tokens"))
    if bound is not None and (not isinstance(bound, int) or bound < 1):
        raise RefusalError(400, "invalid_request", f"max_tokens: got {bound!r}, wanted a whole number from 1")
    return ChatRequest(document["model"], _messages(document.get("messages")), bound, label)


def _messages(value: Any) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise RefusalError(400, "invalid_request", "messages: wanted a list with at least one message")
    messages = []
    for number, message in enumerate(value):
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise RefusalError(400, "invalid_request", f"messages[{number}]: wanted a text 'role' and a text 'content'")
        messages.append(Message(role, content))
    return tuple(messages)


def tokens(text: str) -> int:
    """Return a deterministic count in place of a tokenizer's: a quarter of the UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def completion(request: ChatRequest, text: str) -> dict[str, Any]:
    """Return the completion object; a text over the request's bound is cut and its finish reason says so."""
    finish_reason = "stop"
    if request.max_tokens is not None and tokens(text) > request.max_tokens:
        text = text.encode("utf-8", "surrogatepass")[: request.max_tokens * BYTES_PER_TOKEN].decode("utf-8", "ignore")
        finish_reason = "length"
    prompt = sum(tokens(message.content) for message in request.messages)
    return completion_of(request.model, text, finish_reason, prompt, tokens(text))


def completion_of(model: str, text: str, finish_reason: str, prompt: int, answer: int) -> dict[str, Any]:
    """Return the completion object of a reply whose tokens are known."""
    return {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason},
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer},
    }


def error_body(code: str, message: str) -> dict[str, Any]:
    """Return OpenAI's error object."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}
