"""``quickstart`` as people type it: everything from nothing in one process tree, and nothing left behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.local import supervisor
from tests.support.small_product import ROOT, small_product
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class Quickstart:
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def var_dir(self) -> Path:
        return self.folder / "var"

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def quickstart() -> Iterator[Quickstart]:
    folder, environment = small_product()
    argv = [sys.executable, "manage.py", "quickstart", "--campaign", str(folder / "tiny.yaml")]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=out, stderr=err)
    try:
        yield Quickstart(folder, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        supervisor.ask_to_stop(folder / "var")
        shutil.rmtree(folder, ignore_errors=True)


def test_it_trains_compares_reports_and_leaves_nothing_running(quickstart: Quickstart) -> None:
    assert quickstart.process.wait(timeout=280) == 0, quickstart.text("err") + quickstart.text("out")
    printed = quickstart.text("out")
    for policy in ("trained coordinator", "adder", "speller", "random choice", "per-problem oracle"):
        assert policy in printed
    assert "diff: trained coordinator minus the policy, paired by problem" in printed
    assert "paid for these episodes" in printed
    page = quickstart.var_dir / "reports" / "tiny" / "index.html"
    assert f"report: {page}" in printed
    assert "Campaign tiny" in page.read_text()
    assert supervisor.status(quickstart.var_dir) is None


@pytest.mark.parametrize("said", ["starting the services", "running: "])
def test_interrupting_it_stops_what_it_started(quickstart: Quickstart, said: str) -> None:
    wait_for(lambda: said in quickstart.text("err"), seconds=120, what=f"{said!r} on stderr")
    quickstart.process.send_signal(signal.SIGINT)
    assert quickstart.process.wait(timeout=120) == 130
    assert supervisor.status(quickstart.var_dir) is None
