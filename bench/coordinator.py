"""Cost of a generation's decisions: our encoder against one whole forward pass per decision, in the same run.

    python bench/coordinator.py [--json] [--full] [--questions 16] [--candidates 32] [--episodes 8] [--naive 12]

One paper generation, 32 candidates x 16 replicates on the same 16 questions, conversations of about 128 tokens a turn,
SmolLM2 in float32 on one thread. ``turn1_ratio_seven``: first turn, singular values of the seven matrices of the
second-to-last layer; ``turn1_ratio_head``: first turn, head alone; ``five_turns_ratio``: five turns with seven
matrices when no two conversations are equal, measured on ``--episodes`` episodes. The naive side runs the model's own
forward pass over the whole conversation for every decision: on ``--naive`` of the first turn, scaled, and on the same
conversations of five turns, each right after ours; it pays nothing for changing weights. ``--full`` adds nine matrices
and a small case of Qwen3-0.6B with random weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.coordinator_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
