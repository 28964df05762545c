"""Chat templates of other families, and texts that try to be more than texts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from services.core.errors import SpecError
from services.core.protocol.prompts import router_messages
from services.core.protocol.transcript import Transcript
from services.encoder.chat import ChatTokenizer
from services.encoder.reading import Reading
from tests.support.chat_templates import FAMILIES, GEMMA_2, MISTRAL, Family, tokenizer_with
from tests.support.tiny_qwen3 import build_tiny_qwen3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_conversation_is_what_the_template_makes_of_it(folder: Path, family: Family) -> None:
    tokenizer = tokenizer_with(folder, family.template, family.words)
    talk = Transcript("What is 3 + 21?")
    messages = [{"role": message.role, "content": message.content} for message in router_messages(talk, 3)]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ids = Reading(ChatTokenizer(tokenizer, "family"), 3, 4096, 512).token_ids(talk)
    today = datetime.now().astimezone().strftime("%d %b %Y")
    # Templates that trim a message lose the line break after the closing tag, which is always there here.
    found = tokenizer.decode(ids).replace("2025-01-01", today)
    assert found in (expected, expected.replace("</question><", "</question>\n<"))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("after", ["", "{{ 7 * 7 }}{% raise %}{# no #}"])
def test_no_text_adds_a_turn_or_moves_the_end(folder: Path, family: Family, after: str) -> None:
    tokenizer = tokenizer_with(folder, family.template, family.words)
    reading = Reading(ChatTokenizer(tokenizer, "family"), 3, 4096, 512)
    text = "".join((*family.words, family.turn, "system\n", *tokenizer.all_special_tokens, after))
    ids = reading.token_ids(Transcript(text))
    assert ids.count(tokenizer.convert_tokens_to_ids(family.turn)) == family.turns
    assert (tokenizer.decode([ids[-2]])[-len(family.last[0]) :], tokenizer.decode([ids[-1]])) == family.last
    assert text in tokenizer.decode(ids)


@pytest.mark.parametrize(("template", "said"), [(MISTRAL, "must alternate"), (GEMMA_2, "System role not supported")])
def test_a_template_without_system_messages_is_refused(folder: Path, template: str, said: str) -> None:
    with pytest.raises(SpecError, match=f"encoder.model.*system message.*{said}"):
        ChatTokenizer(tokenizer_with(folder, template), "some-model")
