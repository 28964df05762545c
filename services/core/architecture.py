"""The weight matrices of a small language model by name and shape, known without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.core.campaign import Matrix

# The families, by the configuration's ``model_type``, whose matrices are named as here.
FAMILIES = ("llama", "qwen2", "qwen3")

# As the models' own state dictionaries order them, which is the order of theta in the authors' code.
LAYER_MATRICES = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
EMBEDDING = "embed_tokens"
OUTPUT = "lm_head"


@dataclass(frozen=True)
class Decoder:
    """Shapes of a decoder of the llama kind.

    Attributes:
        layers: number of transformer layers.
        intermediate: width of the MLP.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: width of one head.
        vocabulary: rows of the embedding.
        tied: whether ``lm_head`` and ``embed_tokens`` are one matrix.
    """

    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool


@dataclass(frozen=True)
class Architecture:
    """What an encoder model is built of.

    Attributes:
        family: the configuration's ``model_type``.
        hidden: d, the length of the model's states.
        decoder: its shapes, or None for a family whose matrices are not known here.
    """

    family: str
    hidden: int
    decoder: Decoder | None = None

    def matrices(self) -> Mapping[str, Matrix]:
        """Return every matrix whose singular values may be searched, by name, in state-dict order; none if unknown."""
        if self.decoder is None:
            return {}
        inner = [f"layers.{layer}.{name}" for layer in range(self.decoder.layers) for name in LAYER_MATRICES]
        names = [EMBEDDING, *inner, OUTPUT]
        return {name: Matrix(name, self._size(name, self.decoder)) for name in names}

    def _size(self, name: str, decoder: Decoder) -> int:
        """Return the smaller dimension; every matrix has ``hidden`` as one of its two."""
        other = {
            EMBEDDING: decoder.vocabulary,
            OUTPUT: decoder.vocabulary,
            "q_proj": decoder.heads * decoder.head_dim,
            "o_proj": decoder.heads * decoder.head_dim,
            "k_proj": decoder.kv_heads * decoder.head_dim,
            "v_proj": decoder.kv_heads * decoder.head_dim,
            "gate_proj": decoder.intermediate,
            "up_proj": decoder.intermediate,
            "down_proj": decoder.intermediate,
        }
        return min(self.hidden, other[name.rpartition(".")[2]])
