"""The process behind ``manage.py pool serve``: every pool file of a folder, until it is told to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from services.cli import render
from services.config.pool_file import load
from services.config.settings import Settings
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.local_pool import LocalPool
from services.pool.local.server import LocalPoolServer, UnavailablePool

Pools = Sequence[LocalPool | UnavailablePool]


def read_pools(folder: Path, variables: Mapping[str, str]) -> Pools:
    """Return the pools of a folder's ``*.yaml`` files; a wrong file makes its pool unavailable, not the others.

    Raises:
        PrerequisiteMissing: the folder has no pool file.
    """
    pools = list(_found(folder, variables))
    if not pools:
        raise PrerequisiteMissing(f"no pool file (*.yaml) in {folder}", "name another folder with --dir")
    return pools


def serve(settings: Settings, folder: Path | None, host: str | None, port: int | None) -> None:
    """Serve until SIGTERM or SIGINT; one line on stderr tells when requests are answered.

    Raises:
        PrerequisiteMissing: no pool file, or the address is taken.
    """
    place, variables = folder or settings.local_pool_dir, settings.path_variables(os.environ)
    pools = read_pools(place, variables)
    ending = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ending.set())
    address = urlsplit(settings.local_pool_url)
    chosen = port if port is not None else address.port or 80

    def find(name: str) -> LocalPool | UnavailablePool | None:
        return next((pool for pool in _found(place, variables) if pool.name == name), None)

    with LocalPoolServer(pools, host or address.hostname or "127.0.0.1", chosen, find) as url:
        for pool in pools:
            if isinstance(pool, UnavailablePool):
                render.say(f"pool {pool.name} is not served: {pool.reason}")
        render.say(f"pools {', '.join(pool.name for pool in pools)} at {url}")
        ending.wait()


def _found(folder: Path, variables: Mapping[str, str]) -> Iterator[LocalPool | UnavailablePool]:
    return (_read(path, variables) for path in sorted(folder.glob("*.yaml")))


def _read(path: Path, variables: Mapping[str, str]) -> LocalPool | UnavailablePool:
    try:
        return load(path, variables)
    except SpecError as error:
        return UnavailablePool(path.stem, str(error))
