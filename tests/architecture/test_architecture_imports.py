"""Importing any module opens nothing and reads nothing: no socket, no environment, no file written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import importlib, os, socket, sys, threading

modules = sys.argv[1:]
before = dict(os.environ)

def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened at import")

# Third-party packages may touch the environment when they are imported; ours may not. They are loaded first.
for name in modules:
    importlib.import_module(name)
third_party = [name for name in sys.modules if not name.startswith(("services", "scheduler", "worker", "migrations"))]
for name in [name for name in sys.modules if name.split(".")[0] in ("services", "scheduler", "worker", "migrations")]:
    del sys.modules[name]

socket.socket.connect = refuse
socket.socket.bind = refuse
environment = dict(os.environ)
threads = threading.active_count()

class Watched(dict):
    def __getitem__(self, key):
        if str(key).startswith("TRINITY_"):
            raise AssertionError(f"{key} was read at import")
        return dict.__getitem__(self, key)
    def get(self, key, default=None):
        if str(key).startswith("TRINITY_"):
            raise AssertionError(f"{key} was read at import")
        return dict.get(self, key, default)

os.environ._data = Watched(os.environ._data)
for name in modules:
    importlib.import_module(name)
assert dict(os.environ) == environment, "the environment was changed at import"
assert threading.active_count() == threads, "a thread was started at import"
print(len(modules))
"""


def module_names() -> list[str]:
    names = []
    for package in ("services", "scheduler", "worker"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[-1] == "__main__":
                continue
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def test_importing_every_module_opens_nothing(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"  # matplotlib makes its font cache at home
    home.mkdir()
    here.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *module_names()],
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(home)},
        cwd=here,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == len(module_names())
    assert list(here.iterdir()) == [], "importing wrote files"


@pytest.mark.parametrize("module", ["services.cli.main", "scheduler.loop", "services.storage.engine"])
def test_processes_that_call_no_model_import_no_torch_and_no_litellm(module: str) -> None:
    code = f"import {module}, sys; print(sorted({{'torch', 'transformers', 'litellm'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
