from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from services.core.errors import PrerequisiteMissing, SpecError
from services.encoder.slm import SmallLanguageModel, chosen, limit_threads, memory_for
from tests.support.tiny_qwen3 import build_tiny_qwen3

IDS = tuple(range(20, 120))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> SmallLanguageModel:
    limit_threads(1)
    return SmallLanguageModel.load(folder, str(folder))


def test_state_is_the_normed_last_layer_of_the_last_token(model: SmallLanguageModel, folder: Path) -> None:
    slow = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        states = slow(torch.tensor([IDS]), output_hidden_states=True).hidden_states[-1]
    for end in (len(IDS), len(IDS) - 1):
        state = model.state(IDS[:end])
        assert state.dtype == np.float32
        assert state.shape == (32,)
        assert not state.flags.writeable
        np.testing.assert_allclose(state, states[0, end - 1].numpy(), rtol=1e-5, atol=1e-6)


def test_state_is_normed(model: SmallLanguageModel) -> None:
    assert np.sqrt(np.mean(model.state(IDS) ** 2)) == pytest.approx(1.0, abs=0.01)


def test_every_token_counts(model: SmallLanguageModel) -> None:
    assert not np.array_equal(model.state(IDS), model.state((*IDS[:-3], 7, *IDS[-2:])))


def test_half_precision_weights_are_read_as_float32(folder: Path, tmp_path: Path) -> None:
    copy = build_tiny_qwen3(tmp_path / "half")
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(copy / "model.safetensors").items()}
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    model = SmallLanguageModel.load(copy, "half")
    assert model.state(IDS).dtype == np.float32
    np.testing.assert_allclose(model.state(IDS), SmallLanguageModel.load(folder, "full").state(IDS), atol=0.1)


def test_sizes_are_known(model: SmallLanguageModel) -> None:
    assert (model.hidden_size, model.context) == (32, 8192)


def test_missing_weights_are_an_error_not_random_numbers(tmp_path: Path) -> None:
    folder = build_tiny_qwen3(tmp_path / "torn")
    weights = load_file(folder / "model.safetensors")
    del weights["layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SpecError, match=r"lacks layers\.1\.mlp\.up_proj\.weight"):
        SmallLanguageModel.load(folder, "torn")


def test_weights_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    folder = build_tiny_qwen3(tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["norm.weight"][3] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SpecError, match="not finite"):
        SmallLanguageModel.load(folder, "nan").state(IDS)


def test_pickled_weights_and_code_are_refused(tmp_path: Path) -> None:
    folder = build_tiny_qwen3(tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(SpecError, match=r"encoder\.model"):
        SmallLanguageModel.load(folder, "pickled")


def test_truncated_weights_are_refused(tmp_path: Path) -> None:
    folder = build_tiny_qwen3(tmp_path / "short")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SpecError, match="readable language model"):
        SmallLanguageModel.load(folder, "short")


def test_unknown_architecture_is_refused(tmp_path: Path) -> None:
    folder = build_tiny_qwen3(tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard-of"}))
    with pytest.raises(SpecError, match="readable language model"):
        SmallLanguageModel.load(folder, "other")


def test_the_device_is_chosen_or_said_to_be_missing() -> None:
    here = torch.cuda.device_count()
    assert chosen("auto") == ("cuda:0" if here else "cpu")
    assert chosen("cpu") == "cpu"
    with pytest.raises(PrerequisiteMissing, match=f"cuda:{here}.*TRINITY_DEVICE"):
        chosen(f"cuda:{here}")


def test_on_a_gpu_what_is_remembered_gets_half_of_its_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: {"cuda:1": (20 << 30, 80 << 30)}[device])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert memory_for("cuda:1") == 10 << 30
    assert memory_for("cuda:2") == 2 << 30  # not here
    assert memory_for("cpu") == 2 << 30
