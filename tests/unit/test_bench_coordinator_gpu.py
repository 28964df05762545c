"""The measurement on a GPU, tried on a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from bench.coordinator_gpu_ceilings import Ceilings, Demand, ceilings, demand
from bench.coordinator_gpu_report import main
from bench.qwen3 import random_qwen3


def test_every_figure_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--size", "tiny", "--device", "cpu", "--seconds", "0", "--decisions", "64", "--json"]
    assert main("told", arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert {(row["searched"], row["waiting"], row["turn"]) for row in result["rows"]} == {
        (searched, waiting, turn) for searched in ("head", "seven") for waiting in (1, 4) for turn in (1, 2)
    }
    for row in result["rows"]:
        assert row["decisions_a_second"] > 0
        assert row["naive_padded_a_second"] > 0
        assert row["floor"] > 0
        assert row["read"] > 0
    for flips in (result["flips_head"], result["flips_seven"]):
        assert len(flips) == 4
        for rate in flips:
            assert rate["decisions"] >= 64
            assert rate["low"] <= rate["rate"] <= rate["high"]
            assert 0 < rate["median_state_error"] < 0.03  # the formats do differ, by bfloat16's precision


def test_without_a_gpu_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        main("told", [])
    assert "sees no GPU" in capsys.readouterr().err


def test_demand_of_qwen3_by_hand() -> None:
    config = SimpleNamespace(
        head_dim=128,
        num_hidden_layers=28,
        hidden_size=1024,
        num_attention_heads=16,
        num_key_value_heads=8,
        intermediate_size=3072,
    )
    one = demand(config, new=1, known=0, company=1, number_bytes=2)
    layer = 15_728_640  # entries of a layer's matrices; 28 of them are Qwen3-0.6B's 440 million outside the embedding
    assert one.flops == 28 * 2 * layer + 28 * 4 * 2048
    assert one.bytes == 2 * 28 * (layer + 2048)
    many = demand(config, new=128, known=512, company=64, number_bytes=2)
    looks = 128 * 512 + 128 * 129 // 2
    last = 2 * 128 * 2_097_152 + 2 * (layer - 2_097_152) + 4 * 2048 * 640  # keys and values of all, the rest of one row
    assert many.flops == 27 * (2 * 128 * layer + 4 * 2048 * looks) + last
    assert many.bytes == 2 * 28 * (layer / 64 + 2048 * 640)


def test_the_floor_is_the_longer_of_arithmetic_and_traffic() -> None:
    best = Ceilings(flops=100.0, bandwidth=10.0)
    assert Demand(200.0, 10.0).seconds(best) == 2.0
    assert Demand(200.0, 50.0).seconds(best) == 5.0


def test_ceilings_are_measured() -> None:
    best = ceilings("cpu", torch.float32, side=64, copied=1 << 16, times=2)
    assert best.flops > 1e6
    assert best.bandwidth > 1e6


def test_random_weights_have_the_wanted_shape_and_are_halves(tmp_path: Path) -> None:
    random_qwen3(tmp_path, hidden=32, layers=2, intermediate=64, heads=4, key_heads=2, head_size=8, vocabulary=512)
    weights = load_file(tmp_path / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    embedding = next(weight for name, weight in weights.items() if name.endswith("embed_tokens.weight"))
    assert embedding.shape == (512, 32)
    assert 0.018 < embedding.float().std().item() < 0.022
