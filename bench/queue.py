"""Cost of the machinery: our whole path beside bare Celery, generations beside the ideal, turns, growth, the search.

    python bench/queue.py [--json] [--full] [--only throughput,generations,growth,search]

Everything runs as separate processes on a Postgres and a Redis of the bench's own with the product's settings (fsync
on): the scheduler, and workers whose language model and pool answer by a rule (tests/support/stub_worker.py). Rival and
ours take turns in the same run. CPU is that of all processes, their ended children included, from /proc.

What is compared is told in docs/benchmarks.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python put this file's folder first, where this very file would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.queue_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
