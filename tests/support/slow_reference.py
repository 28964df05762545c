"""What a coordinator computes, the slow way: weights really replaced, every conversation whole, no cache, no batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from services.core.campaign import Matrix

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
SEVEN = (*PROJECTIONS, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


class SlowReference:
    """The model in a folder, changed by the formula of the authors' code as it stands there."""

    def __init__(self, folder: Path, model: Any = None) -> None:
        """Load the model, or take the one that is loaded already, float32 and without its output layer."""
        self._model = model if model is not None else AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        self._tied = bool(self._model.config.tie_word_embeddings)
        self._layer = f"layers.{self._model.config.num_hidden_layers - 2}"
        self._decomposed: dict[str, Any] = {}
        self._changed: dict[tuple[str, bytes], torch.Tensor] = {}

    def matrices(self, choice: str) -> tuple[Matrix, ...]:
        """Return ``none``, the ``seven`` of the second-to-last layer, or the authors' ``nine`` in their order."""
        seven = tuple(Matrix(f"{self._layer}.{name}", self._size(f"{self._layer}.{name}")) for name in SEVEN)
        vocabulary = self._size("embed_tokens")
        nine = (Matrix("embed_tokens", vocabulary), *seven, Matrix("lm_head", vocabulary))
        return {"none": (), "seven": seven, "nine": nine}[choice]

    def state(self, token_ids: Sequence[int], matrices: Sequence[Matrix], offsets: NDArray[Any]) -> NDArray[Any]:
        """Return the state of the last but one token under a candidate's offsets."""
        originals: dict[str, torch.Tensor] = {}
        start = 0
        with torch.no_grad():
            for matrix in matrices:
                part = torch.from_numpy(offsets[start : start + matrix.size]).double()
                start += matrix.size
                name = "embed_tokens" if matrix.name == "lm_head" and self._tied else matrix.name
                if name == "lm_head":  # beside the trained head, of no effect
                    continue
                weight = self._weight(name)
                originals.setdefault(name, weight.clone())
                key = (name, part.numpy().tobytes())
                if key not in self._changed:
                    self._changed[key] = self._scaled(name, originals[name], part)
                weight.copy_(self._changed[key])
            output = self._model(torch.tensor([list(token_ids)]), use_cache=False).last_hidden_state[0, -2]
            for name, original in originals.items():
                self._weight(name).copy_(original)
        return np.asarray(output.numpy())

    def _scaled(self, name: str, original: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if name not in self._decomposed:
            self._decomposed[name] = torch.linalg.svd(original.double(), full_matrices=False)
        left, values, right = self._decomposed[name]
        changed = values * (1 + offsets)
        scaled: torch.Tensor = (left * changed) @ right * (values.sum() / changed.sum())
        return scaled.float()

    def _weight(self, name: str) -> Any:
        return self._model.get_submodule(name).weight

    def _size(self, name: str) -> int:
        return int(min(self._weight(name).shape))
