"""No attack of the battery succeeds: as this user, as an ordinary one, and in the fallback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.attacks.battery import ATTACKS, attack_all
from tests.support.sandboxes import FULL, as_user, public_copy, why_not

__all__ = ["public_copy"]


def test_the_battery_is_large_and_every_attack_has_a_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 40


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_nothing_gets_out(backend: str) -> None:
    if reason := why_not(backend):
        pytest.skip(reason)
    report = attack_all([backend], quick=backend == "landlock" and not FULL)
    assert not report.successes(), str(report.successes())  # whole, where pytest would cut it
    assert backend in report.sandbox


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"] if FULL else ["bubblewrap"])
def test_nothing_gets_out_of_an_ordinary_user(backend: str, public_copy: Path) -> None:
    if reason := why_not(backend):
        pytest.skip(reason)
    quick = [] if FULL else ["--quick"]
    assert successes(as_user(public_copy, "-m", "tests.attacks", *quick, backend)) == []


def successes(done: subprocess.CompletedProcess[str]) -> object:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["successes"]
