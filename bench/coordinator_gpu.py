"""Decisions a second on a GPU, against what the GPU can do and against whole forward passes, in the same run.

    python bench/coordinator_gpu.py [--json] [--device cuda:0] [--size qwen3-0.6b|tiny] [--seconds 0.5]

The product's path from conversation to decision: EncoderService with its batches, HeadPolicy, head alone and with the
singular values of seven matrices, when 1, 16 and 64 decisions wait at once, at first turns and at second ones. Random
weights in Qwen3-0.6B's shape. ``floor``: the part of the time that the demanded arithmetic or traffic takes at the
measured ceiling. ``flips``: decisions that bfloat16 changes. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.coordinator_gpu_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
