"""The folder on disk: written whole or not at all, and read as something that a stranger may have made.

Three files of fixed names, no pickle. A reader opens regular files only, follows no link inside the folder, takes no
more bytes than the layout can need, and checks the parameters' hash before it parses them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from services.checkpoint.card import card
from services.checkpoint.description import Description
from services.checkpoint.strict import wrong
from services.checkpoint.tensors import FILE, pack, unpack
from services.core.errors import SpecError

FORMAT = 1
CONFIG = "config.json"
CARD = "README.md"

_LARGEST_CONFIG = 1 << 20  # bytes
_LARGEST_HEADER = 1 << 20  # of the tensors' file, beside its numbers
_OWN = ("format", "sha256")


@dataclass(frozen=True)
class Checkpoint:
    """A coordinator: what it is, and theta, float32 of shape (layout.size,)."""

    description: Description
    theta: npt.NDArray[np.float32]


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write the checkpoint as a new folder and return it. It appears complete or not at all.

    Raises:
        SpecError: there is something at that place, or it cannot be written.
        LayoutMismatch: theta does not fit the layout.
    """
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        raise _taken(folder)
    contents = _contents(checkpoint)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=folder.parent))
    except OSError as error:
        raise SpecError("folder", str(folder), f"a place that can be written ({error.strerror})") from error
    try:
        for name, data in contents.items():
            _write_through(partial / name, data)
        partial.chmod(0o755)
        os.rename(partial, folder)  # refuses anything but nothing and an empty folder
    except OSError as error:
        if folder.exists() and not _is_empty(folder):
            raise _taken(folder) from error
        raise SpecError("folder", str(folder), f"a place that can be written ({error.strerror})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def read(folder: Path) -> Checkpoint:
    """Read and check a checkpoint.

    Raises:
        SpecError: a file is missing, no regular file, cut short, altered, or a field of it is wrong; names the field.
        LayoutMismatch: the parameters do not fit the layout.
    """
    config = _parsed(_read_file(folder, CONFIG, _LARGEST_CONFIG))
    if not isinstance(config, dict):
        raise wrong(CONFIG, config, "an object")
    _require_format(config)
    digest = config.get("sha256")
    if not isinstance(digest, str):
        raise wrong("sha256", digest, f"the sha256 of {FILE}")
    description = Description.from_json({name: value for name, value in config.items() if name not in _OWN})
    data = _read_file(folder, FILE, 4 * description.layout.size + _LARGEST_HEADER)
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise SpecError(FILE, f"sha256 {found}", f"{digest[:64]!r}, as {CONFIG} has it: one of the two was altered")
    return Checkpoint(description, unpack(data, description.layout))


def _contents(checkpoint: Checkpoint) -> dict[str, bytes]:
    tensors = pack(checkpoint.theta, checkpoint.description.layout)
    if not np.isfinite(checkpoint.theta).all():
        raise SpecError("theta", "NaN or infinity", "finite numbers")
    fields = checkpoint.description.to_json()
    config = {"format": FORMAT, "sha256": hashlib.sha256(tensors).hexdigest(), **fields}
    return {
        FILE: tensors,
        CONFIG: (json.dumps(config, indent=2, allow_nan=False) + "\n").encode(),
        CARD: card(checkpoint.description).encode("utf-8", "replace"),
    }


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _taken(folder: Path) -> SpecError:
    return SpecError("folder", str(folder), "a folder that does not exist yet or is empty")


def _require_format(config: dict[str, Any]) -> None:
    if config.get("format") != FORMAT or type(config["format"]) is not int:
        raise wrong("format", config.get("format"), f"{FORMAT}, the format that this release reads and writes")


def _read_file(folder: Path, name: str, most: int) -> bytes:
    """Return a file's bytes; SpecError unless it is a regular file in this very folder of at most ``most`` bytes."""
    try:
        # Neither a link nor a pipe may answer: the one leads elsewhere, the other never ends.
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(str(folder / name), f"{reason}", "a readable file of a checkpoint, no link") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SpecError(str(folder / name), "no regular file", "a file of a checkpoint")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(handle)
    if len(data) > most:
        raise SpecError(str(folder / name), f"more than {most} bytes", f"at most {most} bytes, what it can need")
    return data


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise SpecError(CONFIG, f"{error}"[:200], "a JSON document") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands there twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")
