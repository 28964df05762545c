"""The figures of one run on a GPU or, to try the script, on a CPU: measured, compared, told."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig

from bench.coordinator_gpu_ceilings import Ceilings, ceilings
from bench.coordinator_gpu_flips import flips
from bench.coordinator_gpu_rows import AGENTS, Row, Talks, naive, product
from bench.qwen3 import random_qwen3
from services.core.campaign import EncoderSpec, Matrix
from services.core.protocol.transcript import Transcript
from services.encoder.coordinator import EncoderService
from services.encoder.slm import precision

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
SEVEN = (*PROJECTIONS, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


@dataclass(frozen=True)
class Scale:
    """How large everything is.

    Attributes:
        shape: of the model, where it is not Qwen3-0.6B's.
        waiting, tokens: the decisions at once and the lengths of a turn that are measured.
        talks: conversations for the changed decisions, each at two turns.
        memory: bound of what the encoder remembers, in bytes.
        side, copied, times: of the ceilings.
    """

    shape: dict[str, int]
    waiting: tuple[int, ...]
    tokens: tuple[int, ...]
    talks: int
    memory: int
    side: int
    copied: int
    times: int


_TINY = {"hidden": 64, "layers": 4, "intermediate": 192, "heads": 4, "key_heads": 2, "head_size": 16, "vocabulary": 512}
SCALES = {
    "qwen3-0.6b": Scale({}, (1, 16, 64), (192, 512), 16, 12 << 30, 8192, 1 << 30, 10),
    "tiny": Scale(_TINY, (1, 4), (192,), 4, 1 << 30, 256, 1 << 22, 3),
}


def seven(config: Any) -> tuple[Matrix, ...]:
    """Return the matrices of the second-to-last layer."""
    queries, keys = (count * config.head_dim for count in (config.num_attention_heads, config.num_key_value_heads))
    width, inner = config.hidden_size, config.intermediate_size
    others = (queries, keys, keys, queries, inner, inner, inner)
    layer = f"layers.{config.num_hidden_layers - 2}"
    return tuple(Matrix(f"{layer}.{name}", min(width, other)) for name, other in zip(SEVEN, others, strict=True))


def measure(scale: Scale, device: str, folder: Path, seconds: float, decisions: int) -> dict[str, Any]:
    """Return all figures of a model in a folder."""
    config = AutoConfig.from_pretrained(folder)
    best = ceilings(device, getattr(torch, precision(device)), side=scale.side, copied=scale.copied, times=scale.times)
    _forget_peak(device)
    rows: list[dict[str, Any]] = []
    with EncoderService(folder, device=device, memory_bytes=scale.memory) as service:
        for name, matrices in (("head", ()), ("seven", seven(config))):
            encoder = service.encoder(EncoderSpec(str(folder), singular_values=matrices), AGENTS)
            encoder.encode(Transcript("warm up"))
            for waiting in scale.waiting:
                for tokens in scale.tokens:
                    found = product(encoder, matrices, config, device, waiting, tokens, seconds)
                    rows += [_told(name, row, best) for row in found]
        peak = _peak(device)
        talks = Talks(encoder, scale.tokens[0])
        chains = [encoder.chain(step) for _ in range(scale.talks) for step in talks.fresh()]
        for waiting in scale.waiting:
            for tokens in scale.tokens:
                rival = naive(folder, encoder, device, waiting, tokens, seconds)
                for turn in (0, 1):
                    _compare(rows, waiting, tokens, turn + 1, rival(turn))
    return {
        "ceiling_tflops": round(best.flops / 1e12, 3),
        "ceiling_gb_a_second": round(best.bandwidth / 1e9, 1),
        "rows": rows,
        "peak_mb": peak,
        "flips_head": flips(folder, device, (), chains, decisions),
        "flips_seven": flips(folder, device, seven(config), chains, decisions),
    }


def _told(name: str, row: Row, best: Ceilings) -> dict[str, Any]:
    return {
        "searched": name,
        "waiting": row.waiting,
        "tokens_a_turn": row.tokens,
        "turn": row.turn,
        "read": round(row.read),
        "known": round(row.known),
        "decisions_a_second": round(1 / row.seconds, 1),
        "demand_gflop": round(row.demand.flops / 1e9, 4),
        "demand_mb": round(row.demand.bytes / 1e6, 3),
        "tflops": round(row.demand.flops / row.seconds / 1e12, 3),
        "floor": round(row.demand.seconds(best) / row.seconds, 4),
    }


def _compare(rows: Sequence[dict[str, Any]], waiting: int, tokens: int, turn: int, rival: tuple[float, float]) -> None:
    for row in rows:
        if (row["waiting"], row["tokens_a_turn"], row["turn"]) == (waiting, tokens, turn):
            row["naive_a_second"], row["naive_padded_a_second"] = (round(1 / seconds, 1) for seconds in rival)


def _forget_peak(device: str) -> None:
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: str) -> int:
    """Return the megabytes of the product's path at their highest: of the GPU, or of the process on a CPU."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return int(torch.cuda.max_memory_allocated(device) >> 20)


def _machine(device: str) -> dict[str, Any]:
    name = platform.machine() if device == "cpu" else torch.cuda.get_device_name(device)
    return {
        "device": f"{device}, {name}",
        "number_format": precision(device),
        "cores": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 2),
        "versions": f"python {platform.python_version()}, torch {torch.__version__}, CUDA {torch.version.cuda}, "
        f"transformers {transformers.__version__}",
    }


def _lines(result: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in result.items():
        if not isinstance(value, list):
            lines.append(f"{name:22} {value}")
            continue
        lines += ["", name, "  ".join(value[0])]
        lines += ["  ".join(f"{row[key]!s:>{len(key)}}" for key in value[0]) for row in value]
    return lines


def main(told: str | None, arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu to try the script")
    parser.add_argument("--size", choices=SCALES, default="qwen3-0.6b")
    parser.add_argument("--seconds", type=float, default=0.5, help="measured for each row, at least three rounds")
    parser.add_argument("--decisions", type=int, default=2048, help="compared for each rate of changed decisions")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.device != "cpu" and not torch.cuda.is_available():
        parser.error(f"{given.device}: torch {torch.__version__} sees no GPU here; a CUDA build of torch is needed")
    with tempfile.TemporaryDirectory() as place:
        scale = SCALES[given.size]
        folder = random_qwen3(Path(place), **scale.shape)
        result = {"size": given.size, **_machine(given.device)}
        result |= measure(scale, given.device, folder, given.seconds, given.decisions)
    print("\n".join([json.dumps(result)] if given.json else _lines(result)))
    return 0
