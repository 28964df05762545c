"""``quickstart`` as people type it: everything from nothing in one process tree, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.local import supervisor
from tests.support.tiny_qwen3 import build_tiny_qwen3
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """
name: tiny
seed: 3
problems: {{source: generated, families: [chain_sum, letter_counting], training: 8, validation: 2, heldout: 6}}
pool:
  - {{name: adder, model: openai/adder, base_url: local:pair, price: {{input: 0.2, output: 0.8}}}}
  - {{name: speller, model: openai/speller, base_url: local:pair, price: {{input: 0.1, output: 0.4}}}}
encoder: {{model: {encoder}, singular_values: none}}
protocol: {{max_turns: 2, max_output_tokens: 64}}
search: {{population: 4, replicates: 2, generations: 2, sigma0: 0.1}}
validation: {{every: 1, problems: 2}}
evaluation: {{problems: 6}}
budget: {{usd: 10}}
"""
POOL = """
kind: simulated
name: pair
seed: 1
models:
  - {name: adder, skills: {chain_sum: {worker: 0.9, thinker: 0.5, verifier: 0.9}}, otherwise: {worker: 0.1, thinker: 0.1, verifier: 0.5}}
  - {name: speller, skills: {letter_counting: {worker: 0.9, thinker: 0.5, verifier: 0.9}}, otherwise: {worker: 0.1, thinker: 0.1, verifier: 0.5}}
"""  # noqa: E501


@dataclass(frozen=True)
class Quickstart:
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def var_dir(self) -> Path:
        return self.folder / "var"

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def quickstart() -> Iterator[Quickstart]:
    # A short path that other users may enter: sockets lie below it, and as root Postgres runs as somebody else.
    folder = Path(tempfile.mkdtemp(prefix="trinity-qs-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "pools").mkdir()
    (folder / "pools" / "pair.yaml").write_text(POOL)
    (folder / "tiny.yaml").write_text(CAMPAIGN.format(encoder=build_tiny_qwen3(folder / "encoder")))
    environment = {
        **os.environ,
        "TRINITY_VAR_DIR": str(folder / "var"),
        "TRINITY_LOCAL_POOL_DIR": str(folder / "pools"),
        "TRINITY_LOCAL_POOL_URL": f"http://127.0.0.1:{free_port()}",
        "TRINITY_FLOWER_PORT": str(free_port()),
    }
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
    assert "paired interval" in printed
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
