"""The child process: one JSON array ``[reference, answer]`` a line in, one JSON object a line out.

A job that uses up its CPU time ends the process by SIGPROF, whatever it is doing; the parent starts another one. The
first line out says that the process is ready.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
import warnings
from pathlib import Path


def main(arguments: list[str]) -> int:
    cpu_seconds, memory_bytes = float(arguments[0]), int(arguments[1])
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    from services.symbolic.comparing import compare  # takes most of a second: after the pipes are open

    compare(r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}")  # builds the parser's tables, which counts for no job
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _write({"ready": True})
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            reference, answer = json.loads(line)
            verdict = compare(reference, answer)
            reason = "" if verdict is not None else "cannot be read as mathematics"
        except Exception as error:  # noqa: BLE001 -- whatever a library raises on odd text is an answer nobody can compare
            verdict, reason = None, type(error).__name__
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write({"equal": verdict, "reason": reason, "peak": _peak()})
    return 0


def _peak() -> int:
    """Return the most bytes this program has had in memory; ``ru_maxrss`` starts with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
