"""What programs may use."""

from __future__ import annotations

from services.core.problem import ProgramTests
from services.core.scoring.ports import Limits

# Answers of a function are read whole; a large grid of numbers takes some megabytes.
_ANSWERS = 8 << 20


def limits(tests: ProgramTests, output_bytes: int = _ANSWERS) -> Limits:
    """Return the limits for one case, or for a whole source of tests."""
    return Limits(cpu_seconds=tests.seconds, wall_seconds=2 * tests.seconds, output_bytes=output_bytes)
