from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from tokenizers.normalizers import Prepend, Replace
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import Metaspace
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from services.core.errors import SpecError
from services.core.protocol.ports import Message
from services.encoder.chat import ChatTokenizer, Ids
from tests.support.tiny_qwen3 import SPECIAL, THINK, build_tiny_qwen3

SYSTEM = Message("system", "You dispatch work.")


def whole(chat: ChatTokenizer, messages: Sequence[Message]) -> Ids:
    frame = chat.frame(tuple(message.role for message in messages))
    parts = (chat.spell(message.content).ids + after for message, after in zip(messages, frame[1:], strict=True))
    return sum(parts, frame[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def chat(folder: Path) -> ChatTokenizer:
    return ChatTokenizer.load(folder, str(folder))


@pytest.fixture(scope="module")
def control(folder: Path) -> set[int]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return set(tokenizer.convert_tokens_to_ids([*SPECIAL, *THINK]))


def test_ordinary_text_gets_the_ids_of_the_chat_template(chat: ChatTokenizer, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [SYSTEM, Message("user", "What is 3 + 21?\n\nthought")]
    expected = tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in messages],
        add_generation_prompt=True,
        enable_thinking=False,
        return_dict=False,
    )
    assert list(whole(chat, messages)) == expected


def test_the_penultimate_token_closes_the_empty_thought(chat: ChatTokenizer, folder: Path) -> None:
    ids = whole(chat, [SYSTEM, Message("user", "hello")])
    decode = AutoTokenizer.from_pretrained(folder).decode
    assert (decode([ids[-2]]), decode([ids[-1]])) == ("</think>", "\n\n")


@pytest.mark.parametrize("word", [*SPECIAL, *THINK])
def test_control_words_in_a_text_stay_text(chat: ChatTokenizer, folder: Path, control: set[int], word: str) -> None:
    harmless = whole(chat, [SYSTEM, Message("user", "ab")])
    hostile = whole(chat, [SYSTEM, Message("user", f"a{word}b")])
    assert [token for token in hostile if token in control] == [token for token in harmless if token in control]
    assert f"a{word}b" in AutoTokenizer.from_pretrained(folder).decode(hostile)


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.characters(codec=None))
    | st.lists(st.sampled_from([*SPECIAL, *THINK, "<", "|>", "\n"])).map("".join)
)
def test_no_text_adds_a_control_token(chat: ChatTokenizer, control: set[int], text: str) -> None:
    def used(content: str) -> list[int]:
        return [token for token in whole(chat, [SYSTEM, Message("user", content)]) if token in control]

    assert used(text) == used("")


@pytest.mark.parametrize("text", ["a\x00b", "\udc80\ud800", "\ue0000\ue001", "\u202e\u0301" * 50, ""])
def test_strange_texts_are_read(chat: ChatTokenizer, text: str) -> None:
    assert len(whole(chat, [SYSTEM, Message("user", text)])) > 20


def test_a_lone_surrogate_reads_as_a_question_mark(chat: ChatTokenizer) -> None:
    assert whole(chat, [SYSTEM, Message("user", "a\udc80")]) == whole(chat, [SYSTEM, Message("user", "a?")])


def test_template_without_a_place_for_the_system_message(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ messages[-1].content }}"
    with pytest.raises(SpecError, match=r"encoder\.model.*system message.*drops"):
        ChatTokenizer(tokenizer, "some-model")


def test_template_that_repeats_a_message(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = (
        "{% for _ in 'ab' %}{% for message in messages %}{{ message.content }}{% endfor %}{% endfor %}"
    )
    with pytest.raises(SpecError, match=r"encoder\.model.*repeats"):
        ChatTokenizer(tokenizer, "some-model")


def test_template_that_stumbles(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ messages[0].content + 1 }}"
    with pytest.raises(SpecError, match=r"encoder\.model"):
        ChatTokenizer(tokenizer, "some-model")


def test_of_several_named_templates_the_default_is_taken(folder: Path, chat: ChatTokenizer) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = {"default": str(tokenizer.chat_template), "tool_use": "{{ 'tools' }}"}
    named = ChatTokenizer(tokenizer, "named")
    assert whole(named, [SYSTEM, Message("user", "hello")]) == whole(chat, [SYSTEM, Message("user", "hello")])
    assert named.template_digest == chat.template_digest
    tokenizer.chat_template = {"rag": "{{ 'documents' }}"}
    with pytest.raises(SpecError, match="no default"):
        ChatTokenizer(tokenizer, "named")


def test_template_that_refuses_a_system_message(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(SpecError, match="no system role"):
        ChatTokenizer(tokenizer, "some-model")


def test_model_without_a_template(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = None
    with pytest.raises(SpecError, match="chat template"):
        ChatTokenizer(tokenizer, "base-model")


def test_a_template_with_a_clock_gives_the_same_tokens_every_day(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ strftime_now('%s') }}" + tokenizer.chat_template
    ids = whole(ChatTokenizer(tokenizer, "dated"), [SYSTEM, Message("user", "hello")])
    assert tokenizer.decode(ids).startswith("2025-01-01<|im_start|>")


def test_line_breaks_at_the_beginning_of_a_template_stay(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "\n\n  {% if true %}\n x{% endif %}" + tokenizer.chat_template
    messages = [SYSTEM, Message("user", "hello")]
    expected = tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in messages],
        add_generation_prompt=True,
        enable_thinking=False,
        return_dict=False,
    )
    assert list(whole(ChatTokenizer(tokenizer, "spaced"), messages)) == expected


def test_added_tokens_that_the_template_does_not_know_stay_text(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = ["<|fim_prefix|>", "<tool_call>", "[INST]"]
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in words])
    ids = whole(ChatTokenizer(tokenizer, "added"), [SYSTEM, Message("user", "a".join(words))])
    assert not set(ids) & set(tokenizer.convert_tokens_to_ids(words))
    assert "a".join(words) in tokenizer.decode(ids)


def test_control_tokens_that_the_vocabulary_itself_holds_are_left_out() -> None:
    pieces = [("<unk>", 0.0), ("</s>", -1.0), ("a", -2.0), ("b", -2.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.add_special_tokens(["</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}</s>{% endfor %}"
    assert ChatTokenizer(tokenizer, "unigram").spell("a</s>b").ids == (2, 3)


def test_no_text_gets_a_space_of_its_own(folder: Path) -> None:
    """Tokenizers in SentencePiece's manner set one before the first word; here every text is in the middle."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for step in (Metaspace(prepend_scheme="always"), Metaspace(prepend_scheme="first")):
        tokenizer.backend_tokenizer.pre_tokenizer = step
        assert ChatTokenizer(tokenizer, "prefix").spell("ab").ids == tuple(tokenizer.convert_tokens_to_ids(["a", "b"]))
    tokenizer.backend_tokenizer.normalizer = Normalizers([Prepend("_"), Replace("x", "b")])
    assert ChatTokenizer(tokenizer, "prefix").spell("ax").ids == tuple(tokenizer.convert_tokens_to_ids(["a", "b"]))


def test_line_breaks_that_are_added_tokens_stay_text(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken("\n", special=False, normalized=False)])
    chat = ChatTokenizer(tokenizer, "gemma-like")
    assert "one\ntwo" in tokenizer.decode(whole(chat, [SYSTEM, Message("user", "one\ntwo")]))


def test_a_limit_in_the_tokenizer_file_is_not_ours(folder: Path, chat: ChatTokenizer) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=900)
    messages = [SYSTEM, Message("user", "many words " * 20)]
    assert whole(ChatTokenizer(tokenizer, "short"), messages) == whole(chat, messages)


def test_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"encoder\.model"):
        ChatTokenizer.load(tmp_path, str(tmp_path))
