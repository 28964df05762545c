"""The process of ``manage.py pool serve``."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from tests.support.local_pools import SUM, Client

ROOT = Path(__file__).resolve().parents[2]

POOL_FILE = """
kind: simulated
name: {name}
seed: 1
models:
  - name: able
    otherwise: {{worker: 1.0, thinker: 1.0, verifier: 1.0}}
"""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "services.cli", "pool", "serve", "--dir", str(folder), *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def first_line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"the process ended with {process.wait(10)} and never said {text!r}")


class TestProcess:
    def test_serves_good_files_names_bad_ones_and_ends_on_sigterm(self, tmp_path: Path) -> None:
        (tmp_path / "good.yaml").write_text(POOL_FILE.format(name="good"))
        (tmp_path / "bad.yaml").write_text("kind: simulated\nname: bad\n")
        process = start(tmp_path, "--port", "0")
        try:
            assert "pool bad is not served" in first_line_with(process, "bad")
            url = first_line_with(process, " at http://").split()[-1]
            good, bad = Client(url, "good"), Client(url, "bad")
            assert "<answer>-4</answer>" in good.text("able", Role.WORKER, Transcript(SUM))
            assert bad.ask("able", Role.WORKER, Transcript(SUM))[0] == 503

            process.send_signal(signal.SIGTERM)

            assert process.wait(10) == 0
        finally:
            process.kill()
            process.communicate()
        good.connection.close()
        bad.connection.close()

    def test_a_taken_port_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "good.yaml").write_text(POOL_FILE.format(name="good"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            process = start(tmp_path, "--port", str(port))
            _, said = process.communicate(timeout=60)

        assert process.returncode == 1
        assert said.count("\n") == 1
        assert f"127.0.0.1:{port}" in said

    def test_a_folder_without_pools_is_one_sentence(self, tmp_path: Path) -> None:
        process = start(tmp_path)
        _, said = process.communicate(timeout=60)

        assert process.returncode == 1
        assert str(tmp_path) in said

    def test_needs_neither_litellm_nor_torch(self) -> None:
        check = "import sys, services.cli.local_pools; print({'litellm', 'torch'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60)

        assert done.stdout.strip() == "set()", done.stderr
