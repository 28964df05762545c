"""The layers run one by one: as transformers runs them, cut anywhere, side by side, and in bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    GemmaConfig,
    GemmaModel,
    LlamaConfig,
    LlamaModel,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
)

from services.core.campaign import Matrix
from services.encoder.decoder import Change, Decoder, Piece
from services.encoder.reader import Reader, Stores
from services.encoder.singular_values import SingularValues, bases_of
from services.encoder.slm import SmallLanguageModel
from tests.support.slow_reference import SlowReference
from tests.support.tiny_qwen3 import build_tiny_qwen3

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
SCALED = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FAMILIES = {
    "llama": lambda: LlamaModel(LlamaConfig(**SIZES)),
    "llama with biases": lambda: LlamaModel(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "llama 3 positions": lambda: LlamaModel(
        LlamaConfig(**SIZES, rope_parameters=SCALED | {"original_max_position_embeddings": 64})
    ),
    "llama, one key head each": lambda: LlamaModel(LlamaConfig(**SIZES | {"num_key_value_heads": 4})),
    "qwen2": lambda: Qwen2Model(Qwen2Config(**SIZES)),
    "qwen3": lambda: Qwen3Model(Qwen3Config(**SIZES, head_dim=16)),
}


@pytest.fixture(params=FAMILIES)
def module(request: pytest.FixtureRequest) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = FAMILIES[request.param]().eval().requires_grad_(False)
        for name, weight in made.named_parameters():  # biases begin at zero, and then nobody would miss them
            if "bias" in name:
                weight.normal_(0, 0.5)
    return made


def tokens(count: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 300, (count,), generator=torch.Generator().manual_seed(seed))


def weight(decoder: Decoder, name: str) -> Tensor:
    found = decoder.matrix(name)
    assert found is not None
    return found


def plain(module: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        state: Tensor = module(input_ids=ids[None], use_cache=False).last_hidden_state[0, -1]
    return state


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_every_family_is_read_as_transformers_reads_it(module: Any) -> None:
    decoder = Decoder(module)
    assert Decoder.supports(module)
    for count in (1, 2, 60):
        ((state, layers),) = decoder.run(0, 4, [Piece(tokens(count))])
        close(state, plain(module, tokens(count)))
        assert layers.shape[:2] == (4, 2)
        assert layers.shape[3] == count


def test_spans_and_turns_may_be_cut_anywhere(module: Any) -> None:
    decoder, ids = Decoder(module), tokens(40)
    expected = plain(module, ids)
    for layer in range(1, 4):
        ((lower, _),) = decoder.run(0, layer, [Piece(ids)])
        assert lower.shape == (40, 32)
        ((state, _),) = decoder.run(layer, 4, [Piece(lower)])
        close(state, expected)
    for known in (1, 17, 39):
        ((_, past),) = decoder.run(0, 4, [Piece(ids[:known])])
        ((state, layers),) = decoder.run(0, 4, [Piece(ids[known:], past)])
        close(state, expected)
        assert layers.shape[3] == 40


@pytest.mark.parametrize("grouped", [True, False], ids=["as on a CPU", "as on a GPU"])
def test_pieces_of_all_lengths_and_ages_side_by_side_change_nothing(
    module: Any, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    """Each piece gets the states of itself alone, and its own keys and values; from the first layer and from within."""
    decoder = Decoder(module)
    wholes = [tokens(count, count) for count in (30, 1, 12, 30, 45)]
    known = (10, 0, 11, 0, 44)
    doubled = {name: 2 * weight(decoder, name) for name in ("layers.2.mlp.up_proj", "layers.3.self_attn.k_proj")}
    changes = (None, Change(doubled), Change(doubled), None, Change({}))
    for first in (0, 2):
        inputs = [ids if first == 0 else decoder.run(0, first, [Piece(ids)])[0][0] for ids in wholes]
        pasts = [
            decoder.run(first, 4, [Piece(given[:begun])])[0][1] if begun else None
            for given, begun in zip(inputs, known, strict=True)
        ]
        pieces = [
            Piece(given[begun:], past, change)
            for given, begun, past, change in zip(inputs, known, pasts, changes, strict=True)
        ]
        alone = [decoder.run(first, 4, [piece])[0] for piece in pieces]
        monkeypatch.setattr(decoder, "_grouped_with_mask", grouped)
        for (state, layers), (wanted, kept) in zip(decoder.run(first, 4, pieces), alone, strict=True):
            close(state, wanted)
            close(layers, kept)


def test_a_change_acts_as_if_the_weights_were_replaced(module: Any) -> None:
    decoder, ids = Decoder(module), tokens(25)
    names = [f"layers.2.{name}" for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")]
    changed = {name: weight(decoder, name) * 1.3 for name in names}
    ((state, _),) = decoder.run(0, 4, [Piece(ids, None, Change(changed))])
    before = plain(module, ids)
    for name, replaced in changed.items():
        module.get_submodule(name).weight.copy_(replaced)
    close(state, plain(module, ids))
    assert (state - before).abs().max() > 1e-3


def test_sliding_windows_and_other_families_are_left_to_transformers() -> None:
    sliding = Qwen2Model(Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=8, max_window_layers=2))
    assert not Decoder.supports(sliding)
    assert not Decoder.supports(GemmaModel(GemmaConfig(**SIZES, head_dim=8)))


def test_there_are_no_other_matrices() -> None:
    decoder = Decoder(LlamaModel(LlamaConfig(**SIZES)))
    assert decoder.matrix("layers.0.mlp.up_proj") is not None
    for name in ("layers.9.mlp.up_proj", "lm_head", "norm", "layers.0", ""):
        assert decoder.matrix(name) is None


@pytest.mark.parametrize("choice", ["seven", "nine"])
def test_bfloat16_side_by_side_stays_near_float32(tmp_path: Path, choice: str) -> None:
    """bfloat16 has 8 bits of precision, 0.4 %; four layers of it may add up to a few per cent of a state."""
    folder = build_tiny_qwen3(tmp_path / "tiny")
    matrices = SlowReference(folder).matrices(choice)
    exact, rough = (states_of(folder, tmp_path, matrices, dtype) for dtype in ("float32", "bfloat16"))
    for wanted, state in zip(exact, rough, strict=True):
        assert np.linalg.norm(state - wanted) < 0.04 * np.linalg.norm(wanted)


def states_of(folder: Path, place: Path, matrices: Sequence[Matrix], dtype: str) -> list[NDArray[np.float32]]:
    """Return the states of three conversations at their first and second turn, each turn read side by side."""
    decoder = SmallLanguageModel.load(folder, "tiny", dtype=dtype).decoder
    assert decoder is not None
    values = SingularValues(decoder, matrices, bases_of(decoder, matrices, place / dtype))
    reader = Reader(decoder, values, Stores(1 << 24), dtype.encode())
    offsets = np.random.default_rng(3).normal(0, 0.1, sum(matrix.size for matrix in matrices)).astype(np.float32)
    chains: list[tuple[Any, ...]] = [
        tuple(tuple(tokens(60, seed)[:length].tolist()) for length in (4, 20 + seed, 40 + 5 * seed))
        for seed in range(3)
    ]
    return [
        state for turn in (2, 3) for state in reader.states([reader.request(chain[:turn], offsets) for chain in chains])
    ]
