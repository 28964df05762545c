"""The tiny tokenizer with chat templates in the manner of other families of models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer


@dataclass(frozen=True)
class Family:
    """A chat template, its control words, and what a conversation of a system and a user message holds.

    Attributes:
        turn: the control word that opens a turn.
        turns: how many of them, the generation prompt's included.
        last: the text of the last two tokens.
    """

    template: str
    words: tuple[str, ...]
    turn: str
    turns: int
    last: tuple[str, str]


LLAMA_3 = Family(
    "{{- bos_token }}{%- if not date_string is defined %}{%- if strftime_now is defined %}"
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}"
    "{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' + date_string + '\\n\\n' }}"
    "{%- for message in messages %}{%- if not loop.first %}"
    "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}{%- endif %}"
    "{{- message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}",
    ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "<|start_header_id|>",
    3,
    ("<|end_header_id|>", "\n\n"),
)
QWEN_2_5 = Family(
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if not loop.first or message.role != 'system' %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
    (),
    "<|im_start|>",
    3,
    ("assistant", "\n"),
)
GEMMA_3 = Family(
    "{{ bos_token }}{%- set first = messages[0]['content'] + '\\n\\n' -%}"
    "{%- for message in messages[1:] -%}"
    "{{ '<start_of_turn>' + message['role'] + '\\n' + (first if loop.first else '') }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}",
    ("<bos>", "<start_of_turn>", "<end_of_turn>"),
    "<start_of_turn>",
    2,
    ("l", "\n"),
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endfor %}"
)
GEMMA_2 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
)
FAMILIES = {"llama 3": LLAMA_3, "qwen 2.5": QWEN_2_5, "gemma 3": GEMMA_3}


def tokenizer_with(folder: Path, template: str, words: tuple[str, ...] = ()) -> Any:
    """Return the tokenizer of ``folder`` with this template; the first of ``words`` begins every text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(words)})
    tokenizer.bos_token = words[0] if words else "<|endoftext|>"
    tokenizer.chat_template = template
    return tokenizer
