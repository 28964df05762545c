"""Where the embedded services of a folder can be reached, for every other process of the product."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.local.processes import birth

CURE = "start them with `manage.py up`, or set TRINITY_DATABASE_URL and TRINITY_BROKER_URL"


@dataclass(frozen=True)
class Endpoints:
    """URLs with their passwords; None for a service that is not embedded."""

    database_url: str | None = None
    broker_url: str | None = None


def write(var_dir: Path, endpoints: Endpoints) -> Path:
    """Publishes ``endpoints`` for as long as this process lives; only its user may read the file."""
    owner = {"pid": os.getpid(), "birth": birth(os.getpid())}
    return write_private(_path(var_dir), json.dumps(asdict(endpoints) | owner, indent=1))


def read(var_dir: Path) -> Endpoints:
    """What the running ``manage.py up`` (or another owner of the services) has published.

    Raises:
        PrerequisiteMissing: nothing is published, its publisher is gone, or another user runs it.
    """
    path = _path(var_dir)
    try:
        written = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise PrerequisiteMissing(f"no database and broker are running for {var_dir}", CURE) from error
    except PermissionError as error:
        cure = "run as that user, or set TRINITY_VAR_DIR to a folder of your own"
        raise PrerequisiteMissing(f"{path} belongs to another user", cure) from error
    if written.pop("birth") != birth(written.pop("pid")):
        raise PrerequisiteMissing(f"the database and broker of {var_dir} went down without saying so", CURE)
    return Endpoints(**written)


def resolve(database_url: str | None, broker_url: str | None, var_dir: Path) -> tuple[str, str]:
    """Return the addresses to use: the configured ones, else those of the services that run for ``var_dir``.

    Raises:
        PrerequisiteMissing: an address is neither configured nor published.
    """
    if database_url is not None and broker_url is not None:
        return database_url, broker_url
    running = read(var_dir)
    database, broker = database_url or running.database_url, broker_url or running.broker_url
    if database is None or broker is None:
        what = "database" if database is None else "broker"
        cure = f"the running services use an external {what}: set TRINITY_{what.upper()}_URL to the same address"
        raise PrerequisiteMissing(f"no {what} address is known here", cure)
    return database, broker


def forget(var_dir: Path) -> None:
    """Withdraws what was published; harmless when nothing was."""
    _path(var_dir).unlink(missing_ok=True)


def write_private(path: Path, text: str) -> Path:
    """Replaces ``path`` in one step; readers see the old or the new text, and other users neither."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(f".{os.getpid()}.new")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)
    return path


def _path(var_dir: Path) -> Path:
    return var_dir / "run" / "services.json"
