"""Cost of a model call: our pool beside bare litellm and bare httpx, in the same run, against a provider on loopback.

    python bench/pool.py [--json] [--full] [--only cpu,concurrency,memory] [--calls 200] [--slots 200] [--rounds 3]

The provider is a process of its own and answers every completion alike. ``cpu_ms_per_call``: CPU of this process for
one call after the other, no latency; ours checks the window, keeps the deadline, reads and classifies the reply. It
asks such an address without litellm; ``ours_through_litellm`` is the way that other providers take.
``concurrent_ratio_vs_ideal``: ``--slots`` threads with ``--rounds`` calls each at one second of latency, wall time over
``--rounds`` seconds; ``burst_ratio_all``: the same with one call each, all at once. ``rss_slope_mb_per_10k``:
growth of this process's memory over ``--memory-calls`` calls by 16 threads, a least-squares line through the last three
quarters. ``--full`` measures memory over 20,000 calls, CPU over 2,000 and concurrency over 10 rounds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

# litellm reads it when it is imported, and asks the network without it.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from bench.pool_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
