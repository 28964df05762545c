"""``python -m services.pool.local``: serves every pool file of a folder until it is told to end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from services.config.pool_file import load
from services.config.settings import load_settings
from services.core.errors import PrerequisiteMissing, SpecError, TrinityError
from services.core.local_pool import LocalPool
from services.pool.local.server import LocalPoolServer, UnavailablePool


def read_pools(folder: Path, variables: Mapping[str, str]) -> list[LocalPool | UnavailablePool]:
    """Return the pools of a folder's ``*.yaml`` files; a wrong file makes its pool unavailable, not the others.

    Raises:
        PrerequisiteMissing: the folder has no pool file.
    """
    pools = [_read(path, variables) for path in sorted(folder.glob("*.yaml"))]
    if not pools:
        raise PrerequisiteMissing(f"no pool file (*.yaml) in {folder}", "name another folder with --dir")
    return pools


def _read(path: Path, variables: Mapping[str, str]) -> LocalPool | UnavailablePool:
    try:
        return load(path, variables)
    except SpecError as error:
        return UnavailablePool(path.stem, str(error))


def serve(pools: Sequence[LocalPool | UnavailablePool], host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; one line on stderr tells when requests are answered."""
    ending = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ending.set())
    with LocalPoolServer(pools, host, port) as url:
        for pool in pools:
            if isinstance(pool, UnavailablePool):
                sys.stderr.write(f"pool {pool.name} is not served: {pool.reason}\n")
        sys.stderr.write(f"pools {', '.join(pool.name for pool in pools)} at {url}\n")
        sys.stderr.flush()
        ending.wait()


def main() -> int:
    """Return the exit code; a wrong setting or a taken port is one sentence on stderr and 1."""
    parser = argparse.ArgumentParser(prog="manage.py pool serve", description="Serve the local pools on loopback.")
    parser.add_argument("--dir", type=Path, help="folder with pool files (TRINITY_LOCAL_POOL_DIR)")
    parser.add_argument("--host", help="address to listen at (from TRINITY_LOCAL_POOL_URL)")
    parser.add_argument("--port", type=int, help="port to listen at (from TRINITY_LOCAL_POOL_URL)")
    given = parser.parse_args()
    try:
        settings = load_settings()
        address = urlsplit(settings.local_pool_url)
        pools = read_pools(given.dir or settings.local_pool_dir, settings.path_variables(os.environ))
        port = given.port if given.port is not None else address.port or 80
        serve(pools, given.host or address.hostname or "127.0.0.1", port)
    except TrinityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
