"""The benchmarks by name: those of the paper first."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from services.benchmarks.aime import AIME2024, AIME2025
from services.benchmarks.bigcodebench import BIGCODEBENCH, BIGCODEBENCH_HARD
from services.benchmarks.gpqa import GPQA_DIAMOND
from services.benchmarks.gsm8k import GSM8K
from services.benchmarks.humaneval import HUMANEVAL
from services.benchmarks.livecodebench import LIVECODEBENCH
from services.benchmarks.math500 import MATH500
from services.benchmarks.mbpp import MBPP
from services.benchmarks.mmlu import MMLU
from services.benchmarks.mtbench import MTBENCH
from services.benchmarks.record import Benchmark
from services.benchmarks.rlpr import RLPR
from services.benchmarks.theoremqa import THEOREMQA
from services.core.errors import SpecError

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        one.name: one
        for one in (
            MATH500, MMLU, RLPR, LIVECODEBENCH, AIME2025, BIGCODEBENCH_HARD, MTBENCH, GPQA_DIAMOND,
            AIME2024, BIGCODEBENCH, GSM8K, HUMANEVAL, MBPP, THEOREMQA,
        )
    }
)  # fmt: skip


def benchmark(name: str, place: str = "NAME") -> Benchmark:
    """Return a benchmark; raises SpecError with the nearest name when there is none of that name."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    close = difflib.get_close_matches(name, BENCHMARKS, n=1)
    guess = f"; did you mean {close[0]}?" if close else ""
    raise SpecError(place, name, f"one of {', '.join(BENCHMARKS)}{guess}")
