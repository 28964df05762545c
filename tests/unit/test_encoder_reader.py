"""What is shared, what is remembered, and that neither changes a bit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from services.core.campaign import EncoderSpec, Matrix
from services.core.errors import SpecError
from services.encoder.coordinator import EncoderService
from services.encoder.decoder import Decoder, Layers, Piece
from services.encoder.passes import Together
from services.encoder.reader import Reader, Request, State, Stores
from services.encoder.singular_values import SingularValues, bases_of
from services.encoder.slm import SmallLanguageModel
from tests.support.conversations import conversations
from tests.support.slow_reference import SlowReference
from tests.support.tiny_qwen3 import build_tiny_qwen3

Pass = tuple[int, int, int]  # first layer, last layer, tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def matrices(folder: Path) -> Callable[[str], tuple[Matrix, ...]]:
    return SlowReference(folder).matrices


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Pass]:
    seen: list[Pass] = []
    real = Decoder.run

    def counted(self: Decoder, first: int, last: int, pieces: Sequence[Piece]) -> list[tuple[torch.Tensor, Layers]]:
        seen.extend((first, last, len(piece.inputs)) for piece in pieces)
        return real(self, first, last, pieces)

    monkeypatch.setattr(Decoder, "run", counted)
    return seen


def offsets(seed: int, choice: Sequence[Matrix]) -> State:
    size = sum(matrix.size for matrix in choice)
    return np.random.default_rng(seed).normal(0, 0.1, size).astype(np.float32)


def test_candidates_share_everything_below_the_first_changed_layer(
    folder: Path, tmp_path: Path, matrices: Callable[[str], tuple[Matrix, ...]], passes: list[Pass]
) -> None:
    seven = matrices("seven")
    with EncoderService(tmp_path) as service:
        encoder = service.encoder(EncoderSpec(str(folder), singular_values=seven), 3)
        talk = conversations(1, 2)
        for seed in range(5):
            encoder.encode(talk[0], offsets(seed, seven))
        lower = [entry for entry in passes if entry[:2] == (0, 2)]
        upper = [entry for entry in passes if entry[:2] == (2, 4)]
        assert (len(lower), len(upper)) == (2, 10), (
            "an instruction and a question, below once, above for each candidate"
        )
        del passes[:]
        encoder.encode(talk[1], offsets(0, seven))
        new = len(encoder.token_ids(talk[1])) - len(encoder.token_ids(talk[0]))
        assert [entry[:2] for entry in passes] == [(0, 2), (2, 4)]
        assert all(entry[2] < new + 12 for entry in passes), "the new turn alone, and the generation prompt"


def test_side_by_side_the_common_instruction_is_read_once(
    folder: Path, tmp_path: Path, matrices: Callable[[str], tuple[Matrix, ...]], passes: list[Pass]
) -> None:
    """Once below the changed layer, and once above it for each candidate."""
    seven = matrices("seven")
    decoder = SmallLanguageModel.load(folder, "tiny").decoder
    assert decoder is not None
    reader = Reader(decoder, SingularValues(decoder, seven, bases_of(decoder, seven, tmp_path)), Stores(1 << 24), b"")
    chains = [((1,) * 50 + (9,), (1,) * 50 + (2, 3, number)) for number in range(4)]
    asked = [reader.request(chain, offsets(seed, seven)) for chain in chains for seed in range(2)]
    for batch in (asked[:4], asked[4:]):
        reader.states(batch)
    new = [(0, 2, 3)] * 2, [(2, 4, 3)] * 4
    assert passes == [(0, 2, 51), *new[0], *[(2, 4, 51)] * 2, *new[1], *new[0], *new[1]]


@pytest.mark.parametrize("choice", ["seven", "nine"])
@pytest.mark.parametrize("memory_bytes", [0, 60_000])
def test_what_is_remembered_changes_no_bit(
    folder: Path, tmp_path: Path, matrices: Callable[[str], tuple[Matrix, ...]], choice: str, memory_bytes: int
) -> None:
    chosen = matrices(choice)
    asked = [(talk, offsets(seed, chosen)) for seed in range(2) for talk in conversations(4, 4)]
    spec = EncoderSpec(str(folder), singular_values=chosen)
    with EncoderService(tmp_path) as service:
        expected = [service.encoder(spec, 3).encode(*one).tobytes() for one in asked]
    with EncoderService(tmp_path, memory_bytes=memory_bytes) as service:
        encoder = service.encoder(spec, 3)
        found = [encoder.encode(*one).tobytes() for one in reversed(asked)]
        bound = service.metrics()
    assert found[::-1] == expected
    assert sum(bound[f"encoder_{name}_bytes"] for name in ("outputs", "keys_and_values", "weights")) <= memory_bytes


def test_states_of_candidates_stay_out_of_the_shared_file(
    folder: Path, tmp_path: Path, matrices: Callable[[str], tuple[Matrix, ...]]
) -> None:
    seven, file = matrices("seven"), tmp_path / "states.sqlite"
    for _ in range(2):
        with EncoderService(tmp_path, cache_file=file) as service:
            spec = EncoderSpec(str(folder), singular_values=seven)
            service.encoder(spec, 3).encode(conversations(1, 1)[0], offsets(0, seven))
            assert service.counts().file_hits == 0


@pytest.fixture
def together() -> Iterator[Together]:
    device = Together(threads=1, wait_seconds=30.0, most=3)
    yield device
    device.close()


class Sums(Reader):
    """Adds up token ids; a batch that holds a 13 fails."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def state(self, request: Request) -> State:
        return self.states([request])[0]

    def states(self, requests: Sequence[Request]) -> list[State]:
        self.batches.append(len(requests))
        if any(13 in request.chain[-1] for request in requests):
            raise SpecError("theta", 13, "another number")
        return [np.array([sum(request.chain[-1])], dtype=np.float32) for request in requests]


def request(*ids: int) -> Request:
    return Request((ids,), np.zeros(0, dtype=np.float32), b"")


def test_those_that_wait_are_read_side_by_side(together: Together) -> None:
    reader = Sums()
    flights = [together.submit(reader, request(1, number)) for number in range(3)]
    assert [flight.result(30).tolist() for flight in flights] == [[1], [2], [3]]
    assert reader.batches == [3]


def test_one_bad_request_takes_nobody_along(together: Together) -> None:
    reader = Sums()
    flights = [together.submit(reader, request(number)) for number in (12, 13, 14)]
    assert flights[0].result(30).tolist() == [12]
    assert isinstance(flights[1].exception(30), SpecError)
    assert flights[2].result(30).tolist() == [14]


def test_large_batches_are_split_by_length(together: Together) -> None:
    reader = Sums()
    long = (1,) * 8_000
    flights = [together.submit(reader, request(*long)) for _ in range(3)]
    assert [flight.result(30)[0] for flight in flights] == [8_000] * 3
    assert reader.batches == [2, 1]


def test_closing_cancels_those_who_wait_and_refuses_others() -> None:
    device = Together(threads=1)
    busy, may_go = threading.Event(), threading.Event()

    def hold() -> int:
        busy.set()
        assert may_go.wait(30)
        return 1

    first = device.call(hold)
    assert busy.wait(30)
    waiting = device.submit(Sums(), request(1))
    closing = threading.Thread(target=device.close)
    closing.start()
    while not device._closed:
        assert not waiting.done()
    may_go.set()
    closing.join(30)
    assert first.result(30) == 1
    assert waiting.cancelled()
    with pytest.raises(RuntimeError):
        device.submit(Sums(), request(1))
