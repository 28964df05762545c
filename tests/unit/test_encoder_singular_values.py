from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.campaign import Matrix
from services.core.errors import SpecError
from services.encoder.decoder import Change, Decoder
from services.encoder.singular_values import SingularValues, bases_of, decompose
from services.encoder.slm import SmallLanguageModel, limit_threads
from tests.support.slow_reference import SEVEN
from tests.support.tiny_qwen3 import build_tiny_qwen3


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    limit_threads(1)
    folder = build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))
    decoder = SmallLanguageModel.load(folder, "tiny").decoder
    assert decoder is not None
    return decoder


@pytest.fixture(scope="module")
def values(decoder: Decoder, tmp_path_factory: pytest.TempPathFactory) -> SingularValues:
    return SingularValues(decoder, MATRICES, bases_of(decoder, MATRICES, tmp_path_factory.mktemp("bases")))


# hidden 32, intermediate 96, four query and two key heads of 8
MATRICES = tuple(Matrix(f"layers.2.{name}", 16 if name[10] in "kv" else 32) for name in SEVEN)


def weight(decoder: Decoder, name: str) -> torch.Tensor:
    found = decoder.matrix(name)
    assert found is not None
    return found


def test_zero_offsets_are_the_identity_to_the_bit(decoder: Decoder, values: SingularValues) -> None:
    change = values.change(np.zeros(values.size, dtype=np.float32))
    assert change.weights.keys() == {matrix.name for matrix in MATRICES}
    for name, changed in change.weights.items():
        assert torch.equal(changed, weight(decoder, name))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.1, 0.3]))
def test_the_sum_of_singular_values_stays(decoder: Decoder, values: SingularValues, seed: int, spread: float) -> None:
    """trinity.md 3: the nuclear norm is kept, while scales stay positive."""
    offsets = np.clip(np.random.default_rng(seed).normal(0, spread, values.size), -0.99, None).astype(np.float32)
    for name, changed in values.change(offsets).weights.items():
        before, after = torch.linalg.svdvals(weight(decoder, name)), torch.linalg.svdvals(changed)
        assert float(after.sum()) == pytest.approx(float(before.sum()), rel=1e-5)


def test_an_offset_scales_its_own_singular_value(decoder: Decoder, values: SingularValues) -> None:
    """Values are ordered from the largest, as torch's svd gives them."""
    offsets = np.zeros(values.size, dtype=np.float32)
    offsets[0] = 1.0
    changed = torch.linalg.svdvals(values.change(offsets).weights["layers.2.self_attn.q_proj"])
    before = torch.linalg.svdvals(weight(decoder, "layers.2.self_attn.q_proj"))
    factor = float(before.sum() / (before.sum() + before[0]))
    assert float(changed[0]) == pytest.approx(2 * factor * float(before[0]), rel=1e-5)
    torch.testing.assert_close(changed[1:], factor * before[1:], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (32, 32), (1, 5)])
def test_a_decomposition_is_a_singular_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    basis = decompose(matrix)
    torch.testing.assert_close(basis.values.float(), torch.linalg.svdvals(matrix), rtol=1e-5, atol=1e-6)
    unit = basis.vectors.T @ basis.vectors
    torch.testing.assert_close(unit, torch.eye(min(shape)), rtol=0, atol=1e-5)


def test_matrices_without_full_rank_work() -> None:
    matrix = torch.outer(torch.arange(1.0, 7), torch.arange(1.0, 5))
    basis = decompose(matrix)
    assert torch.isfinite(basis.vectors).all()
    assert float(basis.values[1:].max()) < 1e-3 * float(basis.values[0])


def test_offsets_that_leave_nothing_are_refused(values: SingularValues) -> None:
    with pytest.raises(SpecError, match="positive sum"):
        values.change(np.full(values.size, -1.0, dtype=np.float32))
    with pytest.raises(SpecError, match="3 singular-value offsets"):
        values.change(np.zeros(3, dtype=np.float32))


def test_bases_are_kept_and_made_again_when_spoilt(decoder: Decoder, tmp_path: Path) -> None:
    first = bases_of(decoder, MATRICES[:1], tmp_path)
    (file,) = tmp_path.iterdir()
    stamp = file.stat().st_mtime_ns
    again = bases_of(decoder, MATRICES[:1], tmp_path)
    assert file.stat().st_mtime_ns == stamp
    name = MATRICES[0].name
    assert torch.equal(first[name].vectors, again[name].vectors)
    file.write_bytes(file.read_bytes()[:100])
    spoilt = bases_of(decoder, MATRICES[:1], tmp_path)
    assert torch.equal(first[name].vectors, spoilt[name].vectors)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.safetensors"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (Matrix("layers.9.mlp.up_proj", 32), "no such matrix"),
        (Matrix("norm", 32), "no such matrix"),
        (Matrix("layers.2.mlp.up_proj", 31), "32 singular values"),
    ],
)
def test_matrices_that_the_model_lacks(decoder: Decoder, tmp_path: Path, matrix: Matrix, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        bases_of(decoder, [matrix], tmp_path)


def rows_of(change: Change) -> torch.Tensor:
    assert change.embedding is not None
    rows: torch.Tensor = change.embedding(torch.eye(3, 32))
    return rows


def test_of_tied_matrices_the_later_one_acts(decoder: Decoder, tmp_path: Path) -> None:
    """The authors write both in order, so the first of the two is without effect."""
    both = (Matrix("embed_tokens", 32), Matrix("lm_head", 32))
    values = SingularValues(decoder, both, bases_of(decoder, both, tmp_path))
    assert values.first == 0
    one, other = np.full(32, 0.1), np.linspace(-0.2, 0.2, 32)
    changes = [values.change(np.concatenate(parts).astype(np.float32)) for parts in ((one, other), (other, other))]
    assert torch.equal(rows_of(changes[0]), rows_of(changes[1]))
    alone = SingularValues(decoder, both[:1], bases_of(decoder, both[:1], tmp_path)).change(other.astype(np.float32))
    assert torch.equal(rows_of(alone), rows_of(changes[0]))


def test_an_untied_output_layer_changes_nothing(tmp_path: Path) -> None:
    decoder = SmallLanguageModel.load(build_tiny_qwen3(tmp_path / "untied", tied=False), "untied").decoder
    assert decoder is not None
    head = (Matrix("lm_head", 32),)
    values = SingularValues(decoder, head, bases_of(decoder, head, tmp_path))
    assert values.first == decoder.layers
    assert values.change(np.ones(32, dtype=np.float32)) == Change({})
