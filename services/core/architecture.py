"""The weight matrices of a small language model by name and shape, known without loading it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.core.campaign import Matrix
from services.core.errors import SpecError

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

NONE = "none"
SECOND_TO_LAST_LAYER = "second_to_last_layer"
AUTHORS_NINE = "authors_nine"
CHOICES = (NONE, SECOND_TO_LAST_LAYER, AUTHORS_NINE)

FIELD = "encoder.singular_values"

_LAYER = re.compile(r"layers\.(-[0-9]{1,6})\.(.+)")


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

    def matrices(self, choice: str | Sequence[str]) -> tuple[Matrix, ...]:
        """Return the matrices whose singular values are searched, in the order of theta.

        Args:
            choice: one of CHOICES, or names such as ``layers.-2.mlp.up_proj``; negative layers count from the last.

        Raises:
            SpecError: the family is not known, there is no such matrix, or one is named twice.
        """
        if choice == NONE:
            return ()
        if self.decoder is None:
            wanted = f"none: matrices of {self.family} models are not known, only of {', '.join(FAMILIES)} models"
            raise SpecError(FIELD, choice, wanted)
        known, layers = self.known(), self.decoder.layers
        given = _names(choice, layers)
        names = [_counted_from_the_front(name, layers) for name in given]
        for index, name in enumerate(names):
            where = FIELD if isinstance(choice, str) else f"{FIELD}.{index}"
            if name not in known:
                raise SpecError(where, given[index], _there_is(layers))
            if name in names[:index]:
                raise SpecError(where, given[index], f"each matrix once; {name} is entry {names.index(name)} already")
        return tuple(known[name] for name in names)

    def known(self) -> Mapping[str, Matrix]:
        """Return every matrix that may be searched, by name, in state-dict order; none if the family is not known."""
        if self.decoder is None:
            return {}
        inner = [f"layers.{layer}.{name}" for layer in range(self.decoder.layers) for name in LAYER_MATRICES]
        return {name: Matrix(name, self._size(name, self.decoder)) for name in (EMBEDDING, *inner, OUTPUT)}

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


def choice_of(matrices: Sequence[Matrix], layers: int | None) -> str | None:
    """Return which of CHOICES these matrices are, if any.

    Args:
        matrices: in the order of theta.
        layers: of the model; None if nobody knows, then matrices of one layer are taken for the second-to-last's.
    """
    names = [matrix.name for matrix in matrices]
    inner = [int(name.split(".")[1]) for name in names if name.startswith("layers.")]
    count = layers or (inner[0] + 2 if inner else 0)
    return next((choice for choice in CHOICES if names == ([] if choice == NONE else _names(choice, count))), None)


def _names(choice: str | Sequence[str], layers: int) -> list[str]:
    inner = [f"layers.{layers - 2}.{name}" for name in LAYER_MATRICES]
    if choice == SECOND_TO_LAST_LAYER:
        return inner
    if choice == AUTHORS_NINE:
        return [EMBEDDING, *inner, OUTPUT]
    return [choice] if isinstance(choice, str) else list(choice)


def _counted_from_the_front(name: str, layers: int) -> str:
    match = _LAYER.fullmatch(name)
    return f"layers.{layers + int(match[1])}.{match[2]}" if match else name


def _there_is(layers: int) -> str:
    inner = (
        f"layers.N.NAME with N from 0 to {layers - 1} (or -{layers} to -1) and NAME one of {', '.join(LAYER_MATRICES)}"
    )
    return f"{EMBEDDING}, {OUTPUT}, or {inner}"
