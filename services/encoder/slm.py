"""The small language model: weights from a folder, in the precision and on the device where they are used."""

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

from services.core.errors import PrerequisiteMissing, SpecError
from services.encoder.decoder import Decoder

# Index from the end of the conversation with its generation prompt. The paper takes the penultimate token; with Qwen3's
# template and thinking off that is `</think>`.
POSITIONS = {"penultimate": -2, "last": -1}

CPU_MEMORY = 2 << 30
GPU_SHARE = 0.5  # the rest holds the weights and a batch under way, whose keys and values are there twice for a moment


def limit_threads(threads: int) -> None:
    """Let a forward pass use ``threads`` cores; called on the threads that run the passes, before the first one."""
    torch.set_num_threads(threads)


class SmallLanguageModel:
    """Weights in float32 on a CPU, where bfloat16 is slower, and in bfloat16 on a GPU."""

    def __init__(self, module: torch.nn.Module, hidden_size: int, context: int, device: str) -> None:
        self._module = module.eval().requires_grad_(False)
        self._device = device
        self.decoder = Decoder(module) if Decoder.supports(module) else None
        self.hidden_size = hidden_size
        self.context = context

    @classmethod
    def load(cls, folder: Path, model: str, device: str = "cpu", dtype: str | None = None) -> SmallLanguageModel:
        """Read the model without its output layer from safetensors; code in the folder is never run.

        Args:
            folder: the model's files.
            model: its name, for errors.
            device: ``cpu`` or a torch device such as ``cuda:0``.
            dtype: ``float32`` or ``bfloat16`` instead of what suits the device.

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
                dtype=getattr(torch, dtype or precision(device)),
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise SpecError("encoder.model", model, f"a readable language model in {folder} ({error})") from error
        if report["missing_keys"]:  # transformers would fill them with random numbers
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise SpecError("encoder.model", model, f"a complete set of weights ({folder} lacks {missing}, ...)")
        settings = module.config.get_text_config()
        return cls(module.to(device), int(settings.hidden_size), int(settings.max_position_embeddings), device)

    @torch.inference_mode()
    def state(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the last token's hidden state after the final norm, float32 of shape (hidden_size,), in one pass.

        Raises:
            SpecError: the state is not finite, so the weights do not work in this precision.
        """
        ids = torch.tensor([token_ids], dtype=torch.long, device=self._device)
        output: Any = self._module(input_ids=ids, use_cache=False)
        state: NDArray[np.float32] = output.last_hidden_state[0, -1].float().cpu().numpy().copy()
        if not np.isfinite(state).all():
            raise SpecError("encoder.model", "a state that is not finite", "weights that work in this precision")
        state.flags.writeable = False
        return state


def chosen(device: str) -> str:
    """Return the device that ``auto`` stands for, and any other as torch names it.

    Raises:
        PrerequisiteMissing: a GPU was asked for that is not there.
    """
    here = torch.cuda.device_count()
    if device == "auto":
        return "cuda:0" if here else "cpu"
    if device == "cpu":
        return device
    if _number(device) >= here:
        raise PrerequisiteMissing(
            f"the GPU {device} is not here: torch {torch.__version__} sees {here}",
            "set TRINITY_DEVICE to auto or cpu, or install a driver and a build of torch for it",
        )
    return f"cuda:{_number(device)}"


def _number(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def memory_for(device: str) -> int:
    """Return how many bytes may hold what is remembered: on a GPU ``GPU_SHARE`` of what is free there now.

    A device that is not here fails where the model is loaded.
    """
    if not device.startswith("cuda") or _number(device) >= torch.cuda.device_count():
        return CPU_MEMORY
    free, _ = torch.cuda.mem_get_info(device)
    return int(free * GPU_SHARE)


def precision(device: str) -> str:
    """Return the number format that a device computes in."""
    return "float32" if device == "cpu" else "bfloat16"


def numerics(threads: int, device: str) -> str:
    """Return what, besides weights and text, can change the last bits of a state."""
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    kind = torch.backends.cpu.get_cpu_capability() if device == "cpu" else torch.cuda.get_device_name(device)
    return f"{versions}, {kind}, {threads} threads, {precision(device)}, layer by layer"
