"""A Llama model in a GGUF file, turned once into the folder that transformers loads.

transformers reads GGUF itself, but needs the accelerate package for it and twenty times as long at every start.
Weights are stored as bfloat16: finer than the four-bit source, half the size of float32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig

_TOP_LEVEL = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(source: Path, folder: Path) -> None:
    """Write configuration, weights and tokenizer of the Llama model in ``source`` into the new ``folder``.

    Raises:
        KeyError, ValueError: the file holds another architecture or a tensor that a Llama model lacks.
    """
    folder.mkdir()
    reader = GGUFReader(source)
    config = _config(reader)
    weights = folder / "model.safetensors"
    save_file(dict(_tensors(reader, config)), weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors writes 0600, which would lock out a worker that runs as another user
    config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def _config(reader: GGUFReader) -> Any:
    if (architecture := _field(reader, "general.architecture")) != "llama":
        raise ValueError(f"a llama model is wanted, the file holds {architecture!r}")
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=_field(reader, "llama.vocab_size"),
        hidden_size=_field(reader, "llama.embedding_length"),
        intermediate_size=_field(reader, "llama.feed_forward_length"),
        num_hidden_layers=_field(reader, "llama.block_count"),
        num_attention_heads=_field(reader, "llama.attention.head_count"),
        num_key_value_heads=_field(reader, "llama.attention.head_count_kv"),
        max_position_embeddings=_field(reader, "llama.context_length"),
        rms_norm_eps=_field(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": _field(reader, "llama.rope.freq_base")},
        bos_token_id=_field(reader, "tokenizer.ggml.bos_token_id"),
        eos_token_id=_field(reader, "tokenizer.ggml.eos_token_id"),
        tie_word_embeddings=True,
    )


def _field(reader: GGUFReader, name: str) -> Any:
    return reader.fields[name].contents()


def _tensors(reader: GGUFReader, config: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name:
            values = _halves_apart(values, config.num_attention_heads)
        elif ".attn_k." in tensor.name:
            values = _halves_apart(values, config.num_key_value_heads)
        yield _name(tensor.name), torch.tensor(values, dtype=torch.bfloat16)


def _name(name: str) -> str:
    if name in _TOP_LEVEL:
        return _TOP_LEVEL[name]
    found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if found is None:
        raise ValueError(f"the file holds the tensor {name}, which a llama model with tied embeddings lacks")
    return f"model.layers.{found[1]}.{_IN_LAYER[found[2]]}.weight"


def _halves_apart(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo llama.cpp's row order: it interleaves the two halves of each head for its rotary embedding."""
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, values.shape[1])
    return pairs.swapaxes(1, 2).reshape(values.shape)
