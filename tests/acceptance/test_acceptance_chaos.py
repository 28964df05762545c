"""A short storm over all processes: the campaigns end as if nothing had happened, and the provider's bill agrees.

The long one is ``make chaos``.
"""

from __future__ import annotations

import sys

import pytest

from tests.chaos.__main__ import Options, progress, run

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


def test_kills_of_every_process_change_no_result() -> None:
    verdict = run(Options(kills=10, seed=1, pace=1.5, workers=2, short=True), progress)
    lines = list(verdict.lines())
    sys.stdout.writelines(f"{line}\n" for line in lines)
    assert lines[-1] == "10 kills, 0 lost, 0 doubled, mean equal"
    assert verdict.faults == []
