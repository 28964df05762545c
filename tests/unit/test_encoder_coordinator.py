from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.core.campaign import EncoderSpec
from services.core.errors import AttemptInterrupted, SpecError
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.coordinator import Encoder, EncoderService
from services.encoder.reference import QUESTIONS
from services.encoder.slm import Memory, SmallLanguageModel
from services.encoder.state_cache import State
from tests.support.tiny_qwen3 import build_tiny_qwen3

Read = tuple[State, Memory | None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def spec(folder: Path) -> EncoderSpec:
    return EncoderSpec(model=str(folder))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[EncoderService]:
    with EncoderService(tmp_path) as service:
        yield service


@pytest.fixture
def encoder(service: EncoderService, spec: EncoderSpec) -> Encoder:
    return service.encoder(spec, 3)


def conversation(question: str, *texts: str) -> Transcript:
    items = tuple(
        Item(number, 0, Role.THINKER, RoleSource.POLICY, text, text) for number, text in enumerate(texts, start=1)
    )
    return Transcript(question, items)


def test_equal_conversations_get_one_read_only_state(service: EncoderService, encoder: Encoder) -> None:
    first, second = encoder.encode(conversation("1 + 1")), encoder.encode(conversation("1 + 1"))
    assert first is second
    assert first.shape == (32,)
    assert first.dtype == np.float32
    assert not first.flags.writeable
    assert (service.counts().hits, service.counts().misses) == (1, 1)


def test_every_part_of_the_conversation_counts(encoder: Encoder) -> None:
    talks = [conversation("1 + 1"), conversation("1 + 2"), conversation("1 + 1", "a"), conversation("1 + 1", "b")]
    assert len({encoder.encode(talk).tobytes() for talk in talks}) == 4


def test_the_pool_size_and_the_position_count(service: EncoderService, spec: EncoderSpec) -> None:
    talk = conversation("1 + 1")
    states = [
        service.encoder(spec, 3).encode(talk),
        service.encoder(spec, 4).encode(talk),
        service.encoder(replace(spec, position="last"), 3).encode(talk),
    ]
    assert len({state.tobytes() for state in states}) == 3


def test_states_do_not_depend_on_what_runs_beside(tmp_path: Path, spec: EncoderSpec) -> None:
    talks = [conversation(f"question {number}", "thought " * number) for number in range(24)]
    with EncoderService(tmp_path, parallel=1) as alone:
        expected = [alone.encoder(spec, 3).encode(talk).tobytes() for talk in talks]
    with EncoderService(tmp_path, parallel=4) as crowded, ThreadPoolExecutor(16) as threads:
        encoder = crowded.encoder(spec, 3)
        found = [state.tobytes() for state in threads.map(encoder.encode, talks * 4)]
    assert found == expected * 4


def test_threads_that_ask_the_same_wait_for_one_pass(
    service: EncoderService, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    may_go = threading.Event()
    real = SmallLanguageModel.read

    def slow(self: SmallLanguageModel, ids: Sequence[int], position: str, before: Memory | None) -> Read:
        passes.append(len(ids))
        assert may_go.wait(30)
        return real(self, ids, position, before)

    monkeypatch.setattr(SmallLanguageModel, "read", slow)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(encoder.encode, conversation("same")) for _ in range(8)]
        while service.counts().misses < 8:
            assert not any(request.done() for request in asked)
        may_go.set()
        states = [request.result(30) for request in asked]
    assert len(passes) == 2, "the empty conversation, then the question"
    assert all(state is states[0] for state in states)


def test_no_more_than_parallel_passes_at_once(
    tmp_path: Path, spec: EncoderSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = threading.Lock()
    running, most = 0, 0
    both = threading.Barrier(2, timeout=30)

    def counted(self: SmallLanguageModel, ids: Sequence[int], position: str, before: Memory | None) -> Read:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1
        both.wait()
        return np.zeros(self.hidden_size, dtype=np.float32), None

    monkeypatch.setattr(SmallLanguageModel, "read", counted)
    with EncoderService(tmp_path, parallel=2) as service, ThreadPoolExecutor(8) as threads:
        list(threads.map(service.encoder(spec, 3).encode, [conversation(str(number)) for number in range(8)]))
    assert most == 2


def test_a_failed_pass_reaches_every_asker_and_is_tried_again(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SmallLanguageModel, "read", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                encoder.encode(conversation("1 + 1"))
    assert encoder.encode(conversation("1 + 1")).shape == (32,)


def test_a_shared_file_spares_the_pass(tmp_path: Path, spec: EncoderSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "states.sqlite"
    with EncoderService(tmp_path, cache_file=file) as first:
        expected = first.encoder(spec, 3).encode(conversation("1 + 1"))
    monkeypatch.setattr(SmallLanguageModel, "read", lambda *_: 1 / 0)
    with EncoderService(tmp_path, cache_file=file) as second:
        found = second.encoder(spec, 3).encode(conversation("1 + 1"))
        assert second.counts().file_hits == 1
    assert found.tobytes() == expected.tobytes()


def test_other_weights_never_meet_in_the_shared_file(tmp_path: Path, spec: EncoderSpec) -> None:
    other = EncoderSpec(model=str(build_tiny_qwen3(tmp_path / "other", seed=1)))
    with EncoderService(tmp_path, cache_file=tmp_path / "states.sqlite") as service:
        states = [service.encoder(one, 3).encode(conversation("1 + 1")) for one in (spec, other)]
        assert service.counts().misses == 2
    assert states[0].tobytes() != states[1].tobytes()


def test_items_then_the_whole_are_cut(service: EncoderService, spec: EncoderSpec) -> None:
    talk = conversation("q" * 2_000_000, *("w " * 1_000_000 for _ in range(5)))
    short = service.encoder(replace(spec, max_tokens=100, item_tokens=10), 3)
    assert len(short.token_ids(talk)) == 100
    roomy = service.encoder(replace(spec, item_tokens=10), 3)
    with_items = len(roomy.token_ids(conversation("q", *("w " * 1_000_000 for _ in range(5)))))
    assert with_items - len(roomy.token_ids(conversation("q"))) < 5 * 80
    assert short.encode(talk).shape == (32,)


def test_the_model_is_loaded_once(service: EncoderService, spec: EncoderSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    real = SmallLanguageModel.load

    def counted(folder: Path, model: str) -> SmallLanguageModel:
        loads.append(model)
        return real(folder, model)

    monkeypatch.setattr(SmallLanguageModel, "load", counted)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda size: service.encoder(spec, size), range(1, 9)))
    assert len(loads) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_tokens": 8193}, "encoder.max_tokens"),
        ({"max_tokens": 10}, "encoder.max_tokens"),
        ({"item_tokens": 1}, "encoder.item_tokens"),
        ({"position": "first"}, "encoder.position"),
    ],
)
def test_limits_the_model_cannot_keep(
    service: EncoderService, spec: EncoderSpec, change: dict[str, int | str], field: str
) -> None:
    with pytest.raises(SpecError) as caught:
        service.encoder(replace(spec, **change), 3)  # type: ignore[arg-type]
    assert caught.value.path == field


def test_a_closed_service_interrupts(tmp_path: Path, spec: EncoderSpec) -> None:
    service = EncoderService(tmp_path)
    encoder = service.encoder(spec, 3)
    service.close()
    with pytest.raises(AttemptInterrupted):
        encoder.encode(conversation("1 + 1"))
    with pytest.raises(AttemptInterrupted):
        service.encoder(replace(spec, revision="another"), 3)


def test_closing_interrupts_those_who_wait(tmp_path: Path, spec: EncoderSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    service = EncoderService(tmp_path, parallel=1)
    encoder = service.encoder(spec, 3)
    started, may_go = threading.Event(), threading.Event()

    def slow(self: SmallLanguageModel, ids: Sequence[int], position: str, before: Memory | None) -> Read:
        started.set()
        assert may_go.wait(30)
        return np.zeros(32, dtype=np.float32), None

    monkeypatch.setattr(SmallLanguageModel, "read", slow)
    with ThreadPoolExecutor(3) as threads:
        under_way = threads.submit(encoder.encode, conversation("1"))
        assert started.wait(30)
        waiting = threads.submit(encoder.encode, conversation("2"))
        while len(service._flying) < 2:
            assert not waiting.done()
        closing = threads.submit(service.close)
        assert isinstance(waiting.exception(30), AttemptInterrupted)
        may_go.set()
        closing.result(30)
        assert under_way.result(30).shape == (32,)


def test_fingerprint_names_what_differs(service: EncoderService, spec: EncoderSpec, tmp_path: Path) -> None:
    here = service.encoder(spec, 3).fingerprint()
    moved = service.encoder(EncoderSpec(model=str(build_tiny_qwen3(tmp_path / "moved"))), 4).fingerprint()
    assert here.differences(moved) == ()
    assert here == moved
    assert here.digest() == moved.digest()
    other_spec = EncoderSpec(model=str(build_tiny_qwen3(tmp_path / "other", seed=1)), position="last", item_tokens=99)
    other = service.encoder(other_spec, 3).fingerprint()
    assert here.differences(other) == ("weights", "position", "item_tokens")
    assert here.digest() != other.digest()


def test_centred_states_lack_the_mean_of_the_reference_questions(service: EncoderService, spec: EncoderSpec) -> None:
    raw, centred = service.encoder(spec, 3), service.encoder(replace(spec, center=True), 3)
    talks = [conversation(question) for question in QUESTIONS]
    mean = np.mean([raw.encode(talk) for talk in talks], axis=0, dtype=np.float64).astype(np.float32)
    talk = conversation("1 + 1", "a")
    assert centred.encode(talk).tolist() == (raw.encode(talk) - mean).tolist()
    assert not centred.encode(talk).flags.writeable
    assert np.abs(np.mean([centred.encode(talk) for talk in talks], axis=0)).max() < 1e-5
    assert raw.fingerprint().differences(centred.fingerprint()) == ("center",)


def test_the_mean_is_worked_out_once_whoever_asks(tmp_path: Path, spec: EncoderSpec) -> None:
    told: list[str] = []
    with EncoderService(tmp_path, announce=told.append) as service, ThreadPoolExecutor(8) as threads:
        centred = replace(spec, center=True)
        states = list(threads.map(lambda _: service.encoder(centred, 3).encode(conversation("1")), range(8)))
    assert len({state.tobytes() for state in states}) == 1
    assert [line for line in told if line.startswith("reading")] == ["reading 16 reference questions"]


TALK = conversation("How much is 12 + 30?", "Add the tens first.", "Then the ones.", "42, I think.")


@pytest.mark.parametrize("memory_bytes", [0, 20_000, 1 << 30])
def test_what_is_remembered_changes_no_bit(tmp_path: Path, spec: EncoderSpec, memory_bytes: int) -> None:
    steps = [Transcript(TALK.query, TALK.items[:count]) for count in range(len(TALK.items) + 1)]
    with EncoderService(tmp_path) as service:
        expected = [service.encoder(spec, 3).encode(step).tobytes() for step in steps]
    with EncoderService(tmp_path, memory_bytes=memory_bytes) as service:
        encoder = service.encoder(spec, 3)
        assert [encoder.encode(step).tobytes() for step in reversed(steps)] == expected[::-1]


def test_a_turn_pays_for_its_new_tokens_only(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder.encode(Transcript(TALK.query, TALK.items[:2]))
    paid: list[int] = []
    real = SmallLanguageModel.read

    def counted(self: SmallLanguageModel, ids: Sequence[int], position: str, before: Memory | None) -> Read:
        assert before is not None
        shared = [one == other for one, other in zip(before.token_ids, ids, strict=False)]
        paid.append(len(ids) - (shared.index(False) if False in shared else len(shared)))
        return real(self, ids, position, before)

    monkeypatch.setattr(SmallLanguageModel, "read", counted)
    encoder.encode(TALK)
    assert len(paid) == 1
    assert paid[0] < len(encoder.token_ids(TALK)) / 2


def test_reading_turn_by_turn_gives_the_state_of_one_pass(folder: Path, encoder: Encoder) -> None:
    whole = SmallLanguageModel.load(folder, "whole").state(encoder.token_ids(TALK), "penultimate")
    np.testing.assert_allclose(encoder.encode(TALK), whole, rtol=1e-4, atol=1e-5)
