"""The layers of a Llama-like decoder, run from any layer to any other on conversations that go on from earlier passes.

What transformers' own forward pass cannot do, and a coordinator lives on: stop below the first layer that a candidate
changes, go on from there with another candidate's weights, and in the last layer compute the one row that is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaModel, rotate_half
from transformers.models.qwen2.modeling_qwen2 import Qwen2Model
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

FAMILIES = (LlamaModel, Qwen2Model, Qwen3Model)

Layers = Tensor  # keys and values of some layers: (layers, 2, key heads, tokens, head size)


@dataclass(frozen=True)
class Change:
    """A candidate's weights in place of the model's own.

    Attributes:
        weights: matrices by name, each of its original's shape.
        embedding: changes looked-up rows of the embedding, (n, d) -> (n, d); None leaves them as they are.
    """

    weights: Mapping[str, Tensor]
    embedding: Any = None


@dataclass(frozen=True)
class Piece:
    """One conversation's part in a pass.

    Attributes:
        inputs: token ids (n,) for a pass that begins at the embedding, else states (n, d) below its first layer.
        past: keys and values of the p tokens before, for the layers of the pass; None for none.
        change: a candidate's weights, or None.
    """

    inputs: Tensor
    past: Layers | None = None
    change: Change | None = None

    @property
    def known(self) -> int:
        """p, the number of tokens before."""
        return 0 if self.past is None else self.past.shape[3]


@dataclass(frozen=True)
class Frame:
    """How the pieces of one pass lie beside each other: everything is right-aligned, so that all end in the last row.

    Attributes:
        new, known: n and p of each piece.
        mask: True where a row may look, (pieces, 1, n, p + n); None when every row sees all, or all before it.
        causal: each row sees those before it, with nothing known before.
        rotation: cosines and sines of the rows' positions, (pieces, n, head size) each.
    """

    new: tuple[int, ...]
    known: tuple[int, ...]
    mask: Tensor | None
    causal: bool
    rotation: tuple[Tensor, Tensor]

    def own(self, index: int, whole: Tensor) -> Layers:
        """Return a piece's own keys and values out of those of all pieces.

        What was known and what is new are aligned apart, so zeros may lie between them. A piece among others is copied:
        remembered, it must not hold the memory of all.
        """
        if len(self.new) == 1:
            return whole[0]
        before, new, known = max(self.known), self.new[index], self.known[index]
        return torch.cat([whole[index, ..., before - known : before, :], whole[index, ..., -new:, :]], dim=-2)


class Decoder:
    """The inner model of a causal language model, layer by layer. It never changes its weights."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._blocks: Any = self._module.layers
        self.layers: int = len(self._blocks)
        self.tied = bool(getattr(self._module.config, "tie_word_embeddings", False))
        self.device: torch.device = self._module.embed_tokens.weight.device
        # On a GPU no fast attention takes both a mask and fewer key heads than query heads. PyTorch would silently take
        # one that holds all scores at once, in float32.
        self._grouped_with_mask = self.device.type == "cpu"
        kinds = torch.nn.Linear | torch.nn.Embedding
        self._matrices: dict[str, Any] = {
            name: part for name, part in module.named_modules() if isinstance(part, kinds)
        }

    @staticmethod
    def supports(module: torch.nn.Module) -> bool:
        """Tell whether these layers are what the module computes: a known family without sliding windows."""
        kinds = getattr(module.config, "layer_types", None) or ["full_attention"]
        return type(module) in FAMILIES and set(kinds) == {"full_attention"}

    def matrix(self, name: str) -> Tensor | None:
        """Return a weight matrix by its module's name, or None if there is none."""
        part = self._matrices.get(name)
        weight: Tensor | None = None if part is None else part.weight
        return weight

    @torch.inference_mode()
    def run(self, first: int, last: int, pieces: Sequence[Piece]) -> list[tuple[Tensor, Layers]]:
        """Run layers ``first`` to ``last`` - 1 on the pieces side by side.

        Returns:
            For each piece the states above the last of these layers, (n, d), and keys and values of all p + n tokens.
            A pass through the model's last layer gives one state only: the last token's, after the final norm, (d,).
        """
        hidden = _aligned([self._entered(first, piece) for piece in pieces])
        frame = self._frame(pieces, hidden)
        whole = self._known(last - first, pieces, frame, hidden)
        for number in range(first, last):
            hidden = self._layer(number, hidden, frame, whole[:, number - first], [piece.change for piece in pieces])
        grown = [frame.own(index, whole) for index in range(len(pieces))]
        if last == self.layers:
            return list(zip(self._module.norm(hidden[:, -1]), grown, strict=True))
        return [
            (hidden[index, -new:] if len(pieces) == 1 else hidden[index, -new:].clone(), layers)
            for index, (new, layers) in enumerate(zip(frame.new, grown, strict=True))
        ]

    def _known(self, layers: int, pieces: Sequence[Piece], frame: Frame, hidden: Tensor) -> Tensor:
        """Return room for keys and values, (pieces, layers, 2, key heads, p + n, head size), what is known in place."""
        attention, before = self._blocks[0].self_attn, max(frame.known)
        heads = attention.k_proj.out_features // attention.head_dim
        shape = (len(pieces), layers, 2, heads, before + max(frame.new), attention.head_dim)
        # Between pieces of different lengths something is left unwritten, and a masked NaN would still be one.
        whole = hidden.new_empty(shape) if len(pieces) == 1 else hidden.new_zeros(shape)
        for index, piece in enumerate(pieces):
            if piece.past is not None:
                whole[index, ..., before - piece.known : before, :] = piece.past
        return whole

    def _entered(self, first: int, piece: Piece) -> Tensor:
        if first:
            return piece.inputs
        rows: Tensor = self._module.embed_tokens(piece.inputs)
        change = piece.change and piece.change.embedding
        return change(rows) if change else rows

    def _frame(self, pieces: Sequence[Piece], hidden: Tensor) -> Frame:
        new = tuple(len(piece.inputs) for piece in pieces)
        known = tuple(piece.known for piece in pieces)
        device, width, before = hidden.device, max(new), max(known)
        starts = torch.tensor([p - (width - n) for n, p in zip(new, known, strict=True)], device=device)
        positions = (starts[:, None] + torch.arange(width, device=device)).clamp(min=0)
        rotation = self._module.rotary_emb(hidden, positions)
        alike = len(set(new)) == 1 and len(set(known)) == 1
        if alike and (width == 1 or not before):
            return Frame(new, known, None, width > 1, rotation)
        return Frame(new, known, _mask(new, known, device), False, rotation)

    def _layer(
        self,
        number: int,
        hidden: Tensor,
        frame: Frame,
        whole: Tensor,
        changes: Sequence[Change | None],
    ) -> Tensor:
        """Return the layer's output, and write its new keys and values; the model's last layer gives one row."""
        block, name = self._blocks[number], f"layers.{number}"
        normed = block.input_layernorm(hidden)
        rows = 1 if number == self.layers - 1 else hidden.shape[1]
        seen = self._attention(number, normed, rows, frame, whole, changes)
        hidden = hidden[:, -rows:] + self._linear(seen, f"{name}.self_attn.o_proj", changes)
        normed = block.post_attention_layernorm(hidden)
        gate = block.mlp.act_fn(self._linear(normed, f"{name}.mlp.gate_proj", changes))
        risen = gate * self._linear(normed, f"{name}.mlp.up_proj", changes)
        return hidden + self._linear(risen, f"{name}.mlp.down_proj", changes)

    def _attention(
        self,
        number: int,
        normed: Tensor,
        rows: int,
        frame: Frame,
        whole: Tensor,
        changes: Sequence[Change | None],
    ) -> Tensor:
        """Return what the last ``rows`` rows see, before the output projection; write the new keys and values."""
        attention, name = self._blocks[number].self_attn, f"layers.{number}.self_attn"

        def heads(states: Tensor, projection: str, norm: str | None = None) -> Tensor:
            flat = self._linear(states, f"{name}.{projection}", changes)
            split = flat.view(*flat.shape[:2], -1, attention.head_dim)
            sized: Tensor = getattr(attention, norm)(split) if norm and hasattr(attention, norm) else split
            return sized.transpose(1, 2)

        cosines, sines = frame.rotation
        before = max(frame.known)
        whole[:, 0, :, before:] = _rotated(heads(normed, "k_proj", "k_norm"), cosines, sines)
        whole[:, 1, :, before:] = heads(normed, "v_proj")
        keys, values = whole[:, 0], whole[:, 1]
        queries = _rotated(heads(normed[:, -rows:], "q_proj", "q_norm"), cosines[:, -rows:], sines[:, -rows:])
        mask = None if frame.mask is None else frame.mask[:, :, -rows:]
        grouped = mask is None or self._grouped_with_mask
        facing = (keys, values) if grouped else (_spread(keys, queries), _spread(values, queries))
        causal = frame.causal and rows > 1
        seen = functional.scaled_dot_product_attention(
            queries, *facing, mask, is_causal=causal, scale=attention.scaling, enable_gqa=grouped
        )
        return seen.transpose(1, 2).flatten(2)

    def _linear(self, states: Tensor, name: str, changes: Sequence[Change | None]) -> Tensor:
        """Apply a matrix to states (pieces, rows, inputs), each piece with its own candidate's if it has one."""
        part = self._matrices[name]
        given = [None if change is None else change.weights.get(name) for change in changes]
        if all(weight is given[0] for weight in given):
            single: Tensor = part.weight if given[0] is None else given[0]
            return functional.linear(states, single, part.bias)
        stacked = torch.stack([part.weight if weight is None else weight for weight in given])
        product = torch.bmm(states, stacked.transpose(1, 2))
        return product if part.bias is None else product + part.bias


def _rotated(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Return queries or keys (pieces, heads, tokens, size) turned by their positions."""
    turned: Tensor = states * cosines[:, None] + rotate_half(states) * sines[:, None]
    return turned


def _spread(states: Tensor, queries: Tensor) -> Tensor:
    """Return keys or values (pieces, key heads, tokens, size) once for each query head that looks at them."""
    return states.repeat_interleave(queries.shape[1] // states.shape[1], dim=1)


def _aligned(parts: Sequence[Tensor]) -> Tensor:
    """Stack tensors (rows, ...) of different lengths so that their last rows meet, zeros before."""
    if len(parts) == 1:
        return parts[0][None]
    longest = max(len(part) for part in parts)
    whole = parts[0].new_zeros((len(parts), longest, *parts[0].shape[1:]))
    for index, part in enumerate(parts):
        whole[index, longest - len(part) :] = part
    return whole


def _mask(new: Sequence[int], known: Sequence[int], device: torch.device) -> Tensor:
    """Return which of the p + n columns each row may look at; rows before a piece begins look at themselves only."""
    width, before = max(new), max(known)
    columns = torch.arange(before + width, device=device)
    rows = torch.arange(width, device=device)[:, None]
    starts = torch.tensor([[before - p, before + width - n] for n, p in zip(new, known, strict=True)], device=device)
    present = torch.where(columns < before, columns >= starts[:, :1], columns >= starts[:, 1:])
    return (present[:, None, None] & (columns - before <= rows)) | (columns - before == rows)
