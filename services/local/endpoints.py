"""Where the embedded services of a folder can be reached, for every other process of the product."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

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


def database_url(configured: str | None, var_dir: Path) -> str:
    """Return the configured database, else the one that runs for ``var_dir``; PrerequisiteMissing for neither."""
    return configured or read(var_dir).database_url or missing("database")


def broker_url(configured: str | None, var_dir: Path) -> str:
    """Return the configured broker, else the one that runs for ``var_dir``; PrerequisiteMissing for neither."""
    return configured or read(var_dir).broker_url or missing("broker")


def missing(what: str) -> NoReturn:
    """Raise: the running services embed no such thing, because they were started with its URL set."""
    raise PrerequisiteMissing(
        f"no {what} address is known here",
        f"the running services use an external {what}: set TRINITY_{what.upper()}_URL to the same address",
    )


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
