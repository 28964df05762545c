"""Running the parts of the bench of the queue and printing their figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from importlib.metadata import version

from bench import queue_parts as parts
from bench.queue_campaigns import Turn
from bench.queue_parts import FULL, Bench, Figures, Sizes
from bench.queue_processes import place
from bench.queue_search import search
from services.core.errors import TrinityError

PARTS = ("throughput", "generations", "growth", "many", "search")
HEAD = (
    "throughput_ratio_vs_celery", "cpu_ms_per_episode", "generation_ratio_vs_ideal", "turn_p95_ms", "growth_ratio",
)  # fmt: skip
VERSIONS = ("celery", "kombu", "redis", "sqlalchemy", "psycopg", "cma", "numpy")


def measured(bench: Bench, wanted: list[str]) -> Figures:
    figures: Figures = {}
    turns: list[Turn] = []
    if "throughput" in wanted:
        found, turns = parts.throughput(bench)
        figures |= found
    if "generations" in wanted:
        figures |= parts.generations(bench)
    if "growth" in wanted:
        found, more = parts.growth(bench)
        figures |= found
        turns += more
    if turns:
        figures |= parts.turn_figures(turns)
    if "many" in wanted and bench.sizes.campaigns:
        figures |= parts.many(bench)
    if "search" in wanted:
        figures |= search(bench)
    return {name: figures[name] for name in HEAD if name in figures} | figures


def speed() -> float:
    """CPU seconds of ten million additions, which tell how fast the machine is just now."""
    before, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    return round((time.process_time() - before) * 5, 2)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/queue.py", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="the sizes of docs/benchmarks.md, much longer")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started, load, additions = time.monotonic(), os.getloadavg()[0], speed()
    with place() as at:
        bench = Bench(at, FULL if given.full else Sizes())
        try:
            figures = measured(bench, given.only.split(","))
        except (TrinityError, TimeoutError, RuntimeError) as error:
            for name in at.programs:
                print(f"--- {name}\n{at.said(name)[-2000:]}", file=sys.stderr)
            print(f"bench/queue.py: {error}", file=sys.stderr)
            return 1
        finally:
            bench.close()
    figures |= {
        "seconds": round(time.monotonic() - started),
        "load_1m": [round(load, 2), round(os.getloadavg()[0], 2)],
        "ten_million_additions_s": [additions, speed()],
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in VERSIONS},
    }
    print("\n".join([json.dumps(figures)] if given.json else [f"{name:40} {value}" for name, value in figures.items()]))
    return 0
