"""Verdicts on answers, in the same run: our mathematics scorer against math-verify alone, the sandbox against a bare
interpreter.

    python bench/scoring.py [--json] [--full] [--data ../shared/data]

``maths_ratio_vs_math_verify``: verdicts per second on real answers (recorded final answers of 12 models to MATH level
5, whole solutions of MATH-500), both one after the other in one thread. math-verify runs as it comes: parse and verify
with its own defaults in the main thread of this process, already loaded. Ours is the product's scorer with one
symbolic process behind it, started before the clock. ``..._agreement``: verdicts as labelled, on the recorded scores
and on tests/data's pairs, which are hard on purpose. ``--full`` takes all recorded answers instead of every eighth.
``sandbox_overhead_p50_ms``, ``sandbox_runs_per_s``: empty programs in the sandbox beside starts of its interpreter.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.scoring_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
