from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer

from services.core.errors import SpecError
from services.core.protocol.ports import Message
from services.encoder.chat import LEFT_OUT, ChatTokenizer
from tests.support.tiny_qwen3 import SPECIAL, THINK, build_tiny_qwen3

SYSTEM = Message("system", "You dispatch work.")


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
    assert list(chat.token_ids(messages, 4096)) == expected


def test_the_penultimate_token_closes_the_empty_thought(chat: ChatTokenizer, folder: Path) -> None:
    ids = chat.token_ids([SYSTEM, Message("user", "hello")], 4096)
    decode = AutoTokenizer.from_pretrained(folder).decode
    assert (decode([ids[-2]]), decode([ids[-1]])) == ("</think>", "\n\n")


@pytest.mark.parametrize("word", [*SPECIAL, *THINK])
def test_control_words_in_a_text_stay_text(chat: ChatTokenizer, folder: Path, control: set[int], word: str) -> None:
    harmless = chat.token_ids([SYSTEM, Message("user", "ab")], 4096)
    hostile = chat.token_ids([SYSTEM, Message("user", f"a{word}b")], 4096)
    assert [token for token in hostile if token in control] == [token for token in harmless if token in control]
    assert f"a{word}b" in AutoTokenizer.from_pretrained(folder).decode(hostile)


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.characters(codec=None))
    | st.lists(st.sampled_from([*SPECIAL, *THINK, "<", "|>", "\n"])).map("".join)
)
def test_no_text_adds_a_control_token(chat: ChatTokenizer, control: set[int], text: str) -> None:
    def used(content: str) -> list[int]:
        return [token for token in chat.token_ids([SYSTEM, Message("user", content)], 4096) if token in control]

    assert used(text) == used("")


@pytest.mark.parametrize("text", ["a\x00b", "\udc80\ud800", "\ue0000\ue001", "\u202e\u0301" * 50, ""])
def test_strange_texts_are_read(chat: ChatTokenizer, text: str) -> None:
    assert len(chat.token_ids([SYSTEM, Message("user", text)], 4096)) > 20


def test_a_lone_surrogate_reads_as_a_question_mark(chat: ChatTokenizer) -> None:
    assert chat.token_ids([SYSTEM, Message("user", "a\udc80")], 4096) == chat.token_ids(
        [SYSTEM, Message("user", "a?")], 4096
    )


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=400), limit=st.integers(64, 300))
def test_the_whole_is_cut_in_the_middle(chat: ChatTokenizer, text: str, limit: int) -> None:
    messages = [SYSTEM, Message("user", text)]
    whole = chat.token_ids(messages, 100_000)
    cut = chat.token_ids(messages, limit)
    assert len(cut) == min(limit, len(whole))
    assert cut[: limit // 2] == whole[: limit // 2]
    assert cut[-(limit - limit // 2) :] == whole[-(limit - limit // 2) :]


def test_a_megabyte_is_cut_before_it_is_tokenised(chat: ChatTokenizer) -> None:
    text = "a" * 500_000 + "MIDDLE" + "b" * 500_000
    ids = chat.token_ids([SYSTEM, Message("user", text)], 256)
    assert len(ids) == 256
    capped = chat.cap(text, 32)
    assert len(capped) < 32 * 16 + 2 * len(LEFT_OUT)
    assert "MIDDLE" not in capped


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(codec=None), max_size=300), tokens=st.integers(2, 40))
def test_a_capped_item_keeps_head_and_tail(chat: ChatTokenizer, text: str, tokens: int) -> None:
    capped = chat.cap(text, tokens)
    if LEFT_OUT not in capped:
        assert capped == text
        return
    head, tail = capped.split(LEFT_OUT, 1)[0], capped.rsplit(LEFT_OUT, 1)[1]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) <= len(text)


def test_a_short_item_is_not_touched(chat: ChatTokenizer) -> None:
    assert chat.cap("question: 3 + 21", 512) == "question: 3 + 21"


def test_a_capped_item_keeps_as_many_tokens_as_allowed(chat: ChatTokenizer) -> None:
    head, tail = chat.cap("question 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 answer", 10).split(LEFT_OUT)
    counts = [len(chat._text_ids(part, 4096)) for part in (head, tail)]
    assert counts == [5, 5]


def test_template_without_a_place_for_the_system_message(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ messages[-1].content }}"
    with pytest.raises(SpecError, match=r"encoder\.model.*system message.*drops"):
        ChatTokenizer(tokenizer, "some-model")


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
    ids = ChatTokenizer(tokenizer, "dated").token_ids([SYSTEM, Message("user", "hello")], 4096)
    assert tokenizer.decode(ids).startswith("2025-01-01<|im_start|>")


def test_line_breaks_that_are_added_tokens_stay_text(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken("\n", special=False, normalized=False)])
    chat = ChatTokenizer(tokenizer, "gemma-like")
    assert "one\ntwo" in tokenizer.decode(chat.token_ids([SYSTEM, Message("user", "one\ntwo")], 4096))


def test_a_limit_in_the_tokenizer_file_is_not_ours(folder: Path, chat: ChatTokenizer) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=900)
    messages = [SYSTEM, Message("user", "many words " * 20)]
    assert ChatTokenizer(tokenizer, "short").token_ids(messages, 4096) == chat.token_ids(messages, 4096)


def test_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"encoder\.model"):
        ChatTokenizer.load(tmp_path, str(tmp_path))
