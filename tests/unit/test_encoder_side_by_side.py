"""Reading as on a GPU: conversations of different ages side by side, in bfloat16, keys and values kept."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.core.campaign import EncoderSpec, Matrix
from services.encoder import coordinator
from services.encoder.coordinator import EncoderService
from services.encoder.decoder import Decoder, Piece
from services.encoder.passes import Together
from services.encoder.reader import Reader, Stores
from services.encoder.singular_values import SingularValues, bases_of
from services.encoder.slm import SmallLanguageModel
from tests.support.conversations import conversations
from tests.support.slow_reference import SlowReference
from tests.support.tiny_qwen3 import build_tiny_qwen3

CHOICES = ("none", "seven", "nine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def slow(folder: Path) -> SlowReference:
    return SlowReference(folder)


def decoder_of(folder: Path, dtype: str) -> Decoder:
    decoder = SmallLanguageModel.load(folder, "tiny", dtype=dtype).decoder
    assert decoder is not None
    return decoder


def tokens(seed: int, count: int) -> Tensor:
    return torch.randint(0, 500, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("grouped", [True, False], ids=["as on a CPU", "as on a GPU"])
@pytest.mark.parametrize("first", [0, 2])
def test_conversations_of_different_ages_leave_their_own_keys_and_values(
    folder: Path, monkeypatch: pytest.MonkeyPatch, first: int, grouped: bool
) -> None:
    decoder = decoder_of(folder, "float32")
    cuts = [(5, 3), (9, 10), (0, 6), (4, 1)]  # known, new
    whole = [tokens(seed, known + new) for seed, (known, new) in enumerate(cuts)]
    inputs = [ids if first == 0 else decoder.run(0, first, [Piece(ids)])[0][0] for ids in whole]
    alone = [decoder.run(first, 4, [Piece(given)])[0] for given in inputs]
    pasts = [
        decoder.run(first, 4, [Piece(given[:known])])[0][1] if known else ()
        for given, (known, _) in zip(inputs, cuts, strict=True)
    ]
    monkeypatch.setattr(decoder, "_grouped_with_mask", grouped)
    pieces = [Piece(given[known:], past) for given, past, (known, _) in zip(inputs, pasts, cuts, strict=True)]
    for (state, layers), (wanted, wanted_layers) in zip(decoder.run(first, 4, pieces), alone, strict=True):
        torch.testing.assert_close(state, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(layers, wanted_layers, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("choice", ["none", "seven"])
def test_turn_after_turn_side_by_side_gives_the_states_of_whole_conversations(
    folder: Path, slow: SlowReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    monkeypatch.setattr(coordinator, "Alone", lambda *_: Together(threads=1, wait_seconds=0.05))
    matrices = slow.matrices(choice)
    offsets = offsets_for(matrices)
    talks = [conversations(seed, 4, words=6 + 7 * seed) for seed in range(4)]
    with EncoderService(tmp_path) as service, ThreadPoolExecutor(len(talks)) as threads:
        encoder = service.encoder(EncoderSpec(str(folder), singular_values=matrices), 3)
        for turn in range(4):
            asked = [talk[turn] for talk in talks]
            for one, state in zip(asked, threads.map(lambda one: encoder.encode(one, offsets), asked), strict=True):
                wanted = slow.state(encoder.token_ids(one), matrices, offsets)
                assert np.abs(state - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("choice", CHOICES)
def test_bfloat16_side_by_side_stays_near_float32(
    folder: Path, slow: SlowReference, tmp_path: Path, choice: str
) -> None:
    """bfloat16 has 8 bits of precision, 0.4 %; four layers of it may add up to a few per cent of a state."""
    matrices = slow.matrices(choice)
    exact, rough = (states_of(folder, tmp_path, matrices, dtype) for dtype in ("float32", "bfloat16"))
    for wanted, state in zip(exact, rough, strict=True):
        assert np.linalg.norm(state - wanted) < 0.04 * np.linalg.norm(wanted)


def states_of(folder: Path, place: Path, matrices: Sequence[Matrix], dtype: str) -> list[NDArray[np.float32]]:
    """Return the states of three conversations at their first and second turn, each turn read side by side."""
    decoder = decoder_of(folder, dtype)
    values = SingularValues(decoder, matrices, bases_of(decoder, matrices, place / dtype)) if matrices else None
    reader = Reader(decoder, values, Stores(1 << 24), dtype.encode())
    offsets = offsets_for(matrices)
    chains: list[tuple[Any, ...]] = [
        tuple(tuple(tokens(seed, 60)[:length].tolist()) for length in (4, 20 + seed, 40 + 5 * seed))
        for seed in range(3)
    ]
    return [
        state for turn in (2, 3) for state in reader.states([reader.request(chain[:turn], offsets) for chain in chains])
    ]


def offsets_for(matrices: Sequence[Matrix]) -> NDArray[np.float32]:
    return np.random.default_rng(3).normal(0, 0.1, sum(matrix.size for matrix in matrices)).astype(np.float32)
