"""The small language model as a function from token ids to one hidden state (paper, section 3.1; dossier 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError
from transformers import AutoModel
from transformers.utils import logging

from services.core.errors import SpecError

# Index from the end of the conversation with its generation prompt. The paper takes the penultimate token; with Qwen3's
# template and thinking off that is `</think>`.
POSITIONS = {"penultimate": -2, "last": -1}


def limit_threads(threads: int) -> None:
    """Let a forward pass use ``threads`` cores; called on the threads that run the passes, before the first one."""
    torch.set_num_threads(threads)


def numerics(threads: int) -> str:
    """Return what, besides weights and text, can change the last bits of a state."""
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{versions}, {torch.backends.cpu.get_cpu_capability()}, {threads} threads, float32"


class SmallLanguageModel:
    """Weights in float32 on the CPU, read one conversation at a time.

    One text alone in each pass, without padding: the state of a text then never depends on what else is being read.
    """

    def __init__(self, module: torch.nn.Module, hidden_size: int, context: int) -> None:
        self._module = module.eval()
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

    @torch.inference_mode()
    def state(self, token_ids: Sequence[int], position: str) -> NDArray[np.float32]:
        """Return the hidden state after the final norm, float32 of shape (hidden_size,).

        Raises:
            SpecError: the state is not finite, so the weights do not work in float32.
        """
        ids = torch.tensor([token_ids], dtype=torch.long)
        states: Any = self._module(input_ids=ids, use_cache=False).last_hidden_state
        state: NDArray[np.float32] = states[0, POSITIONS[position]].numpy().copy()
        if not np.isfinite(state).all():
            raise SpecError("encoder.model", "a state that is not finite", "weights that work in float32")
        return state
