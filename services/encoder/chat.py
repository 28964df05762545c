"""The parts of a chat template, and texts that can never act as control tokens, as token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from services.core.errors import SpecError

Ids = tuple[int, ...]

# Some templates write today's date; equal conversations must be equal tokens on every day. The line break goes with the
# tag, as for every tag of a template, and lets the template begin on a line of its own.
_NO_CLOCK = "{%- macro strftime_now(form) -%}2025-01-01{%- endmacro %}\n"


@dataclass(frozen=True)
class Spelling:
    """A text as token ids, with the half-open span of characters each stands for.

    The tokens of a character that takes several share its span.
    """

    ids: Ids
    spans: tuple[tuple[int, int], ...]


class ChatTokenizer:
    """Turns template and texts into token ids. Safe to call from many threads.

    The template's own parts are tokenised with control tokens, the texts apart from them and without: ``<|im_end|>`` or
    ``</think>`` inside a question is text like any other, and template syntax is never interpreted.
    """

    def __init__(self, tokenizer: Any, model: str) -> None:
        """Wrap a transformers tokenizer; raises SpecError if it cannot be used for conversations."""
        if not getattr(tokenizer, "chat_template", None):
            raise SpecError("encoder.model", model, "a model with a chat template, such as an instruction-tuned one")
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            raise SpecError("encoder.model", model, "a model whose tokenizer has a tokenizer.json form")
        self._tokenizer = tokenizer
        description = tokenizer.backend_tokenizer.to_str()
        self._control = _control_tokens(json.loads(description)["added_tokens"])
        self._markup = tokenizer.backend_tokenizer
        self._plain = _blind_to(description, self._control)
        for reader in (self._markup, self._plain):
            reader.no_truncation()  # some tokenizer files bring a limit of their own
            reader.no_padding()
        self.frame = lru_cache(maxsize=8)(self._frame)
        try:
            self._template = str(tokenizer.get_chat_template())
            self.frame(("system", "user"))
        except (TemplateError, ValueError, TypeError) as error:
            raise SpecError("encoder.model", model, f"a chat template that takes a system message ({error})") from error
        self.tokenizer_digest = hashlib.sha256(description.encode()).hexdigest()
        self.template_digest = hashlib.sha256(self._template.encode()).hexdigest()

    @classmethod
    def load(cls, folder: Path, model: str) -> ChatTokenizer:
        """Read the tokenizer of a local folder, never running code in it; raises SpecError."""
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SpecError("encoder.model", model, f"a readable tokenizer in {folder} ({error})") from error
        return cls(tokenizer, model)

    def spell(self, text: str) -> Spelling:
        """Return a text's token ids, none of them a control token."""
        encoding = self._plain.encode(_clean(text), add_special_tokens=False)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        kept = [(token, span) for token, span in pairs if token not in self._control]
        return Spelling(tuple(token for token, _ in kept), tuple(span for _, span in kept))

    def _frame(self, roles: tuple[str, ...]) -> tuple[Ids, ...]:
        """Return what the template puts before, between and after messages of these roles, with a generation prompt.

        Thinking is switched off where the template has a switch for it.

        Raises:
            ValueError, TemplateError: it cannot write each message once, in order.
        """
        marks = [f"\ue000{index}\ue001" for index in range(len(roles))]  # private-use characters: in no template
        rest: str = self._tokenizer.apply_chat_template(
            [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
            thinking=False,
            chat_template=_NO_CLOCK + self._template,
        )
        pieces = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError("it drops a message")
            pieces.append(before)
        if any(mark in piece for mark in marks for piece in (*pieces, rest)):
            raise ValueError("it repeats a message")
        return tuple(tuple(self._markup.encode(piece, add_special_tokens=False).ids) for piece in (*pieces, rest))


def _control_tokens(added: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Return the added tokens, special or not, such as ``</think>``: what a text must not be read as.

    Line breaks and spaces that are added tokens are text all the same.
    """
    return {entry["id"]: entry["content"] for entry in added if not entry["content"].isspace()}


def _blind_to(description: str, control: dict[int, str]) -> Tokenizer:
    """Return the tokenizer that reads control words as text, and a text as the middle of one.

    Control tokens become special ones and special ones are switched off: removing them would renumber the others.
    """
    parts = json.loads(description)
    for entry in parts["added_tokens"]:
        entry["special"] = entry["id"] in control
    _put_nothing_before(parts["normalizer"])
    _put_nothing_before(parts["pre_tokenizer"])
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _put_nothing_before(step: dict[str, Any] | None) -> None:
    """Keep a step of the tokenizer from setting a space before each text, which it means for the first word only."""
    if step is None:
        return
    for part in step.get("normalizers", step.get("pretokenizers", [step])):
        if part["type"] == "Prepend":
            part["prepend"] = ""
        elif part["type"] == "Metaspace":
            part["prepend_scheme"] = "never"
        elif part["type"] == "ByteLevel":
            part["add_prefix_space"] = False


def _clean(text: str) -> str:
    """Return ``text`` with a question mark for each lone surrogate, which no tokenizer takes; lengths stay."""
    return text.encode("utf-8", "replace").decode("utf-8")
