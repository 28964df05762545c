"""Cost of a sandboxed program against a bare interpreter, in the same run and by turns.

    python -m bench.scoring_sandbox [--runs 100]

``overhead_p50_ms``: what a run through the sandbox, from the call to the answer, takes longer at the median than
starting the same interpreter by ``python3 -I -S -c pass`` and waiting for it. ``runs_per_s`` and ``bare_runs_per_s``:
programs and bare interpreters per second, as many at once as there are cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from services.core.scoring.ports import Ending, Job
from services.sandbox.client import SandboxRunner
from services.sandbox.opening import open_runner

EMPTY = Job("pass")
INTERPRETER = os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def measure_sandbox(runs: int = 100) -> dict[str, object]:
    """Return the figures.

    Args:
        runs: of each kind.

    Raises:
        PrerequisiteMissing: there is no sandbox on this machine.
    """
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    with open_runner(places=cores) as runner:
        pairs = [(seconds(bare), seconds(lambda: sandboxed(runner))) for _ in range(runs)]
        rates = per_second(bare, runs, cores), per_second(lambda: sandboxed(runner), runs, cores)
        name = runner.name
    bare_ms, sandboxed_ms = ([1000 * pair[side] for pair in pairs] for side in (0, 1))
    return {
        "sandbox": name,
        "runs": runs,
        "cores": cores,
        "load_1m": round(load, 2),
        "bare_p50_ms": round(statistics.median(bare_ms), 1),
        "sandbox_p50_ms": round(statistics.median(sandboxed_ms), 1),
        "overhead_p50_ms": round(statistics.median(sandboxed_ms) - statistics.median(bare_ms), 1),
        "sandbox_p95_ms": round(statistics.quantiles(sandboxed_ms, n=20)[-1], 1),
        "bare_runs_per_s": round(rates[0], 1),
        "runs_per_s": round(rates[1], 1),
    }


def bare() -> None:
    subprocess.run([INTERPRETER, "-I", "-S", "-c", "pass"], check=True)


def sandboxed(runner: SandboxRunner) -> None:
    done = runner.run(EMPTY)
    if (done.ending, done.status) != (Ending.EXITED, 0):
        raise AssertionError(f"an empty program ended with {done}")


def seconds(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def per_second(action: Callable[[], None], runs: int, at_once: int) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as threads:
        for each in [threads.submit(action) for _ in range(runs)]:
            each.result()
    return runs / (time.perf_counter() - began)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=100)
    print(json.dumps(measure_sandbox(arguments.parse_args().runs), indent=1))


if __name__ == "__main__":
    main()
