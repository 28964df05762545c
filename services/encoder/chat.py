"""A conversation as token ids: the model's own chat template around texts that can never act as control tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from services.core.errors import SpecError
from services.core.protocol.ports import Message

LEFT_OUT = "\n[... left out ...]\n"

# A token of ordinary text has about four characters. Text beyond this many per token is dropped before it is tokenised,
# so that a megabyte costs no more than a page.
_CHARACTERS_PER_TOKEN = 16

# Some templates write today's date; equal conversations must be equal tokens on every day.
_NO_CLOCK = "{%- macro strftime_now(form) -%}2025-01-01{%- endmacro -%}"


class ChatTokenizer:
    """Turns messages into token ids. Safe to call from many threads.

    The template's own parts are tokenised with control tokens, the messages' contents apart from them and without:
    ``<|im_end|>`` or ``</think>`` inside a question is text like any other.
    """

    def __init__(self, tokenizer: Any, model: str) -> None:
        """Wrap a transformers tokenizer; raises SpecError if it cannot be used for conversations."""
        if not getattr(tokenizer, "chat_template", None):
            raise SpecError("encoder.model", model, "a model with a chat template, such as an instruction-tuned one")
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            raise SpecError("encoder.model", model, "a model whose tokenizer has a tokenizer.json form")
        self._tokenizer = tokenizer
        description = tokenizer.backend_tokenizer.to_str()
        self._control = _control_tokens(json.loads(description)["added_tokens"], str(tokenizer.chat_template))
        self._markup = tokenizer.backend_tokenizer
        self._plain = _blind_to(description, self._control)
        for reader in (self._markup, self._plain):
            reader.no_truncation()  # some tokenizer files bring a limit of their own
            reader.no_padding()
        self._pieces = lru_cache(maxsize=8)(self._template_pieces)
        self.tokenizer_digest = hashlib.sha256(description.encode()).hexdigest()
        self.template_digest = hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest()
        try:
            self._pieces(("system", "user"))
        except (TemplateError, ValueError) as error:
            raise SpecError("encoder.model", model, f"a chat template that takes a system message ({error})") from error

    @classmethod
    def load(cls, folder: Path, model: str) -> ChatTokenizer:
        """Read the tokenizer of a local folder; raises SpecError."""
        try:
            return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True), model)
        except (OSError, ValueError) as error:
            raise SpecError("encoder.model", model, f"a readable tokenizer in {folder} ({error})") from error

    def token_ids(self, messages: Sequence[Message], limit: int) -> tuple[int, ...]:
        """Return the conversation with its generation prompt, thinking switched off, as at most ``limit`` ids.

        A longer conversation keeps its first ``limit // 2`` ids and its last ones, so the question's beginning, the
        newest turns and the generation prompt always stay.
        """
        pieces = self._pieces(tuple(message.role for message in messages))
        ids = list(pieces[0])
        for message, piece in zip(messages, pieces[1:], strict=True):
            ids += self._text_ids(_ends(message.content, limit), limit)
            ids += piece
        head = limit // 2
        return tuple(ids if len(ids) <= limit else ids[:head] + ids[head - limit :])

    def cap(self, text: str, tokens: int) -> str:
        """Return ``text``, or its head and tail of half of ``tokens`` each with a mark between if it is longer."""
        short = _ends(text, tokens)
        offsets = self._plain.encode(_clean(short), add_special_tokens=False).offsets
        if len(offsets) <= tokens:
            return short
        head = tokens // 2
        return short[: offsets[head - 1][1] if head else 0] + LEFT_OUT + short[offsets[head - tokens][0] :]

    def _text_ids(self, text: str, limit: int) -> list[int]:
        ids = self._plain.encode(_clean(text), add_special_tokens=False).ids
        return [token for token in ids if token not in self._control]

    def _template_pieces(self, roles: tuple[str, ...]) -> list[list[int]]:
        """Return the token ids of what the template puts before, between and after messages of these roles."""
        marks = [f"\ue000{index}\ue001" for index in range(len(roles))]  # private-use characters: in no template
        rest: str = self._tokenizer.apply_chat_template(
            [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
            chat_template=_NO_CLOCK + str(self._tokenizer.chat_template),
        )
        pieces = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError("it drops a message")
            pieces.append(before)
        return [list(self._markup.encode(piece, add_special_tokens=False).ids) for piece in (*pieces, rest)]


def _control_tokens(added: Sequence[dict[str, Any]], template: str) -> dict[int, str]:
    """Return the added tokens that steer the model: special ones, and those the template writes, such as ``</think>``.

    Line breaks and spaces that a template writes are text all the same.
    """
    return {
        entry["id"]: entry["content"]
        for entry in added
        if entry["special"] or (entry["content"] in template and not entry["content"].isspace())
    }


def _blind_to(description: str, control: dict[int, str]) -> Tokenizer:
    """Return the tokenizer that reads control words as text.

    Control tokens become special ones and special ones are switched off: removing them would renumber the others.
    """
    parts = json.loads(description)
    for entry in parts["added_tokens"]:
        entry["special"] = entry["id"] in control
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _ends(text: str, tokens: int) -> str:
    """Return ``text``, without its middle if it is far longer than ``tokens`` tokens can be."""
    half = tokens * _CHARACTERS_PER_TOKEN // 2
    return text if len(text) <= 2 * half else text[:half] + LEFT_OUT + text[-half:]


def _clean(text: str) -> str:
    """Return ``text`` with a question mark for each lone surrogate, which no tokenizer takes; lengths stay."""
    return text.encode("utf-8", "replace").decode("utf-8")
