"""A Qwen3 model with random weights: speed and rounding do not depend on what a model has learnt."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModel, Qwen3Config
from transformers.utils import logging

from tests.support.tiny_qwen3 import build_tiny_qwen3


def random_qwen3(
    folder: Path,
    *,
    hidden: int = 1024,
    layers: int = 28,
    intermediate: int = 3072,
    heads: int = 16,
    key_heads: int = 8,
    head_size: int = 128,
    vocabulary: int = 151_936,
    seed: int = 0,
) -> Path:
    """Write a model of Qwen/Qwen3-0.6B's shape, unless told otherwise, and return its folder.

    Weights are bfloat16, drawn with transformers' standard deviation, 0.02. The tokenizer is a small one that knows 512
    of the vocabulary's tokens, with Qwen3's control tokens and a template like its own.
    """
    logging.disable_progress_bar()
    build_tiny_qwen3(folder)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=head_size,
        max_position_embeddings=40_960,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        AutoModel.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder
