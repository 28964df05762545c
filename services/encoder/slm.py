"""The small language model as a function from token ids to one hidden state (paper, section 3.1; dossier 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError
from transformers import AutoModel, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.utils import logging

from services.core.errors import SpecError

# Index from the end of the conversation with its generation prompt. The paper takes the penultimate token; with Qwen3's
# template and thinking off that is `</think>`.
POSITIONS = {"penultimate": -2, "last": -1}


@dataclass(frozen=True)
class Memory:
    """What a pass leaves behind: for each layer, keys and values of all its tokens, (1, heads, tokens, head size)."""

    token_ids: tuple[int, ...]
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(tensor.nbytes for layer in self.layers for tensor in layer)


def limit_threads(threads: int) -> None:
    """Let a forward pass use ``threads`` cores; called on the threads that run the passes, before the first one."""
    torch.set_num_threads(threads)


def numerics(threads: int) -> str:
    """Return what, besides weights and text, can change the last bits of a state."""
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{versions}, {torch.backends.cpu.get_cpu_capability()}, {threads} threads, float32, chained"


class SmallLanguageModel:
    """Weights in float32 on the CPU, read one conversation at a time.

    One text alone in each pass, without padding: the state of a text then never depends on what else is being read.
    """

    def __init__(self, module: torch.nn.Module, hidden_size: int, context: int) -> None:
        self._module = module.eval()
        layers = DynamicCache(config=module.config).layers
        # Sliding windows forget their oldest keys, and other kinds of layers have none to cut at a token.
        self.extends = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
        self.hidden_size = hidden_size
        self.context = context

    @classmethod
    def load(cls, folder: Path, model: str) -> SmallLanguageModel:
        """Read the model without its output layer from safetensors; code in the folder is never run.

        Raises:
            SpecError: the folder holds no causal language model that transformers knows, or only part of one.
        """
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        try:
            module, report = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise SpecError("encoder.model", model, f"a readable language model in {folder} ({error})") from error
        if report["missing_keys"]:  # transformers would fill them with random numbers
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise SpecError("encoder.model", model, f"a complete set of weights ({folder} lacks {missing}, ...)")
        settings = module.config.get_text_config()
        return cls(module, int(settings.hidden_size), int(settings.max_position_embeddings))

    def state(self, token_ids: Sequence[int], position: str) -> NDArray[np.float32]:
        """Return the hidden state after the final norm, float32 of shape (hidden_size,), in one pass over all tokens.

        Raises:
            SpecError: the state is not finite, so the weights do not work in float32.
        """
        return self.read(token_ids, position, None)[0]

    @torch.inference_mode()
    def read(
        self, token_ids: Sequence[int], position: str, before: Memory | None
    ) -> tuple[NDArray[np.float32], Memory | None]:
        """Return the state at ``position`` and the memory of this pass, going on from ``before`` as far as it agrees.

        The last bits depend on where the passes were cut, so callers who want equal bits cut in the same places.

        Args:
            token_ids: the whole conversation, at least two tokens.
            position: see ``POSITIONS``.
            before: of an earlier conversation; None to read from the start, as for models that do not ``extends``.

        Raises:
            SpecError: the state is not finite, so the weights do not work in float32.
        """
        known = 0 if before is None else min(_shared(before.token_ids, token_ids), len(token_ids) - 2)
        cache = DynamicCache(config=self._module.config) if self.extends else None
        if before is not None and cache is not None and known:
            for number, (keys, values) in enumerate(before.layers):
                cache.update(keys[:, :, :known].contiguous(), values[:, :, :known].contiguous(), number)
        ids = torch.tensor([token_ids[known:]], dtype=torch.long)
        output: Any = self._module(input_ids=ids, cache=cache, use_cache=self.extends)
        state: NDArray[np.float32] = output.last_hidden_state[0, POSITIONS[position]].numpy().copy()
        if not np.isfinite(state).all():
            raise SpecError("encoder.model", "a state that is not finite", "weights that work in float32")
        if cache is None:
            return state, None
        return state, Memory(tuple(token_ids), tuple((layer.keys, layer.values) for layer in cache.layers))


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading entries two sequences have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
