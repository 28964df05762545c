"""What was fetched into a folder: data set, revision, and the hash of every file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from services.core.errors import SpecError

NAME = "manifest.json"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The record that ``fetch`` leaves beside the files.

    Attributes:
        hub: owner and name of the data set.
        revision: the commit that the files are of.
        licence: of the data; empty where the catalogue does not know the data set.
        rows: how many rows the files have together.
        files: SHA-256 in hex of each file, by its path in the data set.
    """

    hub: str
    revision: str
    licence: str
    rows: int
    files: Mapping[str, str]


def read(folder: Path) -> Manifest | None:
    """Return the folder's manifest; None when there is none. Raises SpecError when it is none that we wrote."""
    path = folder / NAME
    try:
        return Manifest(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise SpecError(str(path), str(error), "a manifest as `benchmark fetch` writes it") from error


def write(folder: Path, manifest: Manifest) -> None:
    """Write the folder's manifest, whole or not at all."""
    part = folder / f"{NAME}.part"
    part.write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / NAME)


def changed(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the files that are gone or no longer have the hash of the manifest."""
    for name, sha256 in manifest.files.items():
        path = folder / name
        if not path.is_file() or hash_of(path) != sha256:
            yield name


def hash_of(path: Path) -> str:
    """Return a file's SHA-256 in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
