"""Every learner and every rival on the recorded outcomes of real models, at equal booked budget.

    python bench/comparison.py [--json] [--full] [--sets llmrouter zeroeval] [--questions N] [--seeds N]
                               [--cache FOLDER] [--csv FILE] [--plots FOLDER]

TRINITY_DATA_DIR names the folder with replay/. Without ``--full`` it takes a few questions and two seeds, which shows
that everything runs and no more. States and games are kept in ``--cache``. What was found: docs/comparison.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])
os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench.comparison_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
