"""Cost of a sandboxed program against a bare interpreter, in the same run and by turns."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from services.core.scoring.ports import Ending, Job
from services.sandbox import usage
from services.sandbox.client import SandboxRunner
from services.sandbox.opening import open_runner

EMPTY = Job("pass")
INTERPRETER = os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def measure_sandbox(runs: int = 100) -> dict[str, object]:
    """Return the figures of ``runs`` of each kind.

    ``sandbox_overhead_p50_ms`` is what a run through the sandbox, from the call to the answer, takes longer at the
    median than starting the same interpreter by ``python3 -I -S -c pass`` and waiting for it; ``sandbox_runs_per_s``
    is with as many at once as there are cores; ``sandbox_cpu_ms`` is the processor time of one, which a busy machine
    changes less.

    Raises:
        PrerequisiteMissing: there is no sandbox on this machine.
    """
    cores = len(os.sched_getaffinity(0))
    with open_runner(places=cores) as runner:
        pairs = [(seconds(bare), seconds(lambda: sandboxed(runner))) for _ in range(runs)]
        before = cpu_seconds(runner)
        rates = per_second(bare, runs, cores), per_second(lambda: sandboxed(runner), runs, cores)
        used = [1000 * (after - start) / runs for start, after in zip(before, cpu_seconds(runner), strict=True)]
        name = runner.name
    bare_ms, sandboxed_ms = ([1000 * pair[side] for pair in pairs] for side in (0, 1))
    return {
        "sandbox": name,
        "sandbox_overhead_p50_ms": round(statistics.median(sandboxed_ms) - statistics.median(bare_ms), 1),
        "sandbox_runs_per_s": round(rates[1], 1),
        "sandbox_p50_ms": round(statistics.median(sandboxed_ms), 1),
        "sandbox_p95_ms": round(statistics.quantiles(sandboxed_ms, n=20)[-1], 1),
        "sandbox_cpu_ms": round(used[1], 1),
        "bare_cpu_ms": round(used[0], 1),
        "bare_p50_ms": round(statistics.median(bare_ms), 1),
        "bare_runs_per_s": round(rates[0], 1),
        "sandbox_runs": runs,
    }


def bare() -> None:
    subprocess.run([INTERPRETER, "-I", "-S", "-c", "pass"], check=True)


def sandboxed(runner: SandboxRunner) -> None:
    done = runner.run(EMPTY)
    if (done.ending, done.status) != (Ending.EXITED, 0):
        raise AssertionError(f"an empty program ended with {done}")


def cpu_seconds(runner: SandboxRunner) -> tuple[float, float]:
    """Return the processor time of this process's ended children, and of the runner with everything below it."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime, usage.of_tree(runner.pid).cpu_seconds


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
