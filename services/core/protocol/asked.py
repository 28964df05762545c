"""What identifies a model call: what was asked, which sample of the answers it wants, and which call of which episode.

Two digests. That of the messages says what was asked, whoever was asked and how; recordings go by it. The key of an
answer says all that its distribution depends on, and which draw from it is meant.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.protocol.ports import Message

# Counts up when the same messages are to be answered anew, such as after a change of how replies are read.
PROMPT_VERSION = 1

_HALF_SURROGATES = re.compile("[\ud800-\udfff]")


def sendable(text: str) -> str:
    """Return the text with half surrogates replaced: no request can carry them."""
    return _HALF_SURROGATES.sub("\ufffd", text)


def messages_digest(messages: Sequence[Message]) -> str:
    """Return the sha256 of what a model is sent."""
    return _digest([[message.role, sendable(message.content)] for message in messages])


def answer_key(
    model: ModelSpec,
    protocol: ProtocolSpec,
    messages: str,
    sample: Sequence[int | str],
    scope: Sequence[int | str] = (),
) -> str:
    """Return the key under which an answer is kept.

    Args:
        model: its name at the provider, address and options count; its price, key and limits do not.
        protocol: its decoding options count.
        messages: their digest.
        sample: which of the answers that the model might give: the replicate, and how often the episode had asked the
            same before. Candidates of a generation share samples, replicates do not.
        scope: where the answer may be met again; empty for everywhere.
    """
    decoding = [protocol.temperature, protocol.max_output_tokens, model.options]
    identity = [model.litellm_model, model.base_url or ""]
    return _digest([PROMPT_VERSION, identity, decoding, messages, list(sample), list(scope)])


def call_label(generation: int, kind: str, index: int, purpose: str, replicate: int, turn: int) -> str:
    """Return the name of a call within its campaign, the same in every attempt and in every repetition of the campaign.

    Local pools are told it, so that a recording can tell apart two calls that ask the same.
    """
    return f"g{generation}/{kind}{index}/{purpose}{replicate}/t{turn}"


def with_sample(label: str, sample: int) -> str:
    """Return the name with which sample a call wants of what it asks, where it is not the first (0).

    Local pools are told it, so that simulated models draw anew for every sample, as real ones do.
    """
    return f"{label}#{sample}" if sample else label


def split_sample(told: str) -> tuple[str, int]:
    """Return the name and the sample of what ``with_sample`` returned; of anything else itself and 0."""
    label, _, sample = told.rpartition("#")
    return (label, int(sample)) if label and sample.isascii() and sample.isdecimal() else (told, 0)


def _digest(document: object) -> str:
    text = json.dumps(document, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
