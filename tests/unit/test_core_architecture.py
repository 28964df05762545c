"""Which matrices a campaign file's words mean, and how many singular values they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.core.architecture import Architecture
from services.core.campaign import Matrix
from services.core.errors import SpecError
from services.encoder.catalogue import BUNDLED, KNOWN, architecture

QWEN = KNOWN["Qwen/Qwen3-0.6B"]
SMOL = KNOWN[BUNDLED]

# The published configurations' own words, cut to what is read.
CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-0.6B": {
        "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "intermediate_size": 3072,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    BUNDLED: {
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536,
        "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "choice", "count", "size"),
    [
        (QWEN, "none", 0, 0),
        (QWEN, "second_to_last_layer", 7, 7168),
        (QWEN, "authors_nine", 9, 9216),
        (SMOL, "second_to_last_layer", 7, 5 * 576 + 2 * 192),
        (SMOL, "authors_nine", 9, 7 * 576 + 2 * 192),
    ],
)
def test_counts_of_parameters(model: Architecture, choice: str, count: int, size: int) -> None:
    matrices = model.matrices(choice)
    assert (len(matrices), sum(matrix.size for matrix in matrices)) == (count, size)


def test_the_nine_stand_in_the_order_of_the_state_dictionary() -> None:
    assert QWEN.matrices("authors_nine") == (
        Matrix("embed_tokens", 1024),
        Matrix("layers.26.self_attn.q_proj", 1024),
        Matrix("layers.26.self_attn.k_proj", 1024),
        Matrix("layers.26.self_attn.v_proj", 1024),
        Matrix("layers.26.self_attn.o_proj", 1024),
        Matrix("layers.26.mlp.gate_proj", 1024),
        Matrix("layers.26.mlp.up_proj", 1024),
        Matrix("layers.26.mlp.down_proj", 1024),
        Matrix("lm_head", 1024),
    )
    assert QWEN.matrices("second_to_last_layer") == QWEN.matrices("authors_nine")[1:-1]


def test_a_list_keeps_its_order_and_counts_layers_from_either_end() -> None:
    names = ["layers.-2.mlp.up_proj", "lm_head", "layers.0.self_attn.k_proj", "layers.-30.self_attn.v_proj"]
    assert SMOL.matrices(names) == (
        Matrix("layers.28.mlp.up_proj", 576),
        Matrix("lm_head", 576),
        Matrix("layers.0.self_attn.k_proj", 192),
        Matrix("layers.0.self_attn.v_proj", 192),
    )


@pytest.mark.parametrize(
    ("names", "where", "wanted"),
    [
        (["layers.-2.mlp.up"], "encoder.singular_values.0", "NAME one of self_attn.q_proj"),
        (["lm_head", "layers.28.mlp.up_proj"], "encoder.singular_values.1", "embed_tokens, lm_head, or layers.N.NAME"),
        (["layers.-29.mlp.up_proj"], "encoder.singular_values.0", "N from 0 to 27 (or -28 to -1)"),
        (["layers.026.mlp.up_proj"], "encoder.singular_values.0", "layers.N.NAME"),
        (["layers.26.mlp.up_proj", "layers.-2.mlp.up_proj"], "encoder.singular_values.1", "is entry 0 already"),
    ],
)
def test_a_wrong_name_says_what_there_is(names: list[str], where: str, wanted: str) -> None:
    with pytest.raises(SpecError) as caught:
        QWEN.matrices(names)
    assert caught.value.path == where
    assert wanted in str(caught.value)


def test_a_family_without_known_matrices_can_only_have_none() -> None:
    gemma = Architecture("gemma3_text", 640)
    assert gemma.matrices("none") == ()
    with pytest.raises(SpecError, match=r"gemma3_text models are not known, only of llama, qwen2, qwen3"):
        gemma.matrices("second_to_last_layer")


@pytest.mark.parametrize("model", CONFIGS)
def test_known_shapes_are_those_of_the_published_configurations(tmp_path: Path, model: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[model]))
    assert architecture(str(tmp_path)) == KNOWN[model]


def test_a_configuration_may_leave_out_what_its_family_derives(tmp_path: Path) -> None:
    settings = {key: value for key, value in CONFIGS[BUNDLED].items() if key != "num_key_value_heads"}
    (tmp_path / "config.json").write_text(json.dumps(settings | {"model_type": "qwen2"}))
    decoder = architecture(str(tmp_path)).decoder
    assert decoder is not None
    assert (decoder.kv_heads, decoder.head_dim) == (9, 64)


@pytest.mark.parametrize("change", [{"num_hidden_layers": None}, {"vocab_size": "many"}, {"intermediate_size": 0}])
def test_a_broken_configuration_of_a_known_family(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[BUNDLED] | change))
    with pytest.raises(SpecError, match=r"config\.json names its hidden_size and, for llama, qwen2, qwen3, its shapes"):
        architecture(str(tmp_path))
