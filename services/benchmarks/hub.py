"""Files of hub data sets by plain HTTPS: one revision, every file's hash, whole files or none."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from services.benchmarks import manifest
from services.benchmarks.manifest import Manifest
from services.benchmarks.record import Benchmark, HubFile
from services.benchmarks.tables import require_reader, rows
from services.core.errors import PrerequisiteMissing, SpecError

BLOCK = 1 << 20
SECONDS = 60.0  # without a byte
COMMIT = re.compile(r"[0-9a-f]{40}")
DATA_SET = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Hub:
    """Where data sets come from.

    Attributes:
        url: of the hub or of a mirror with the same addresses.
        token: sent to the hub itself, over TLS or on this machine only; never to where it redirects.
        progress: called with file, bytes so far and bytes in all (None: not told).
    """

    url: str
    token: str | None
    progress: Progress


@dataclass(frozen=True)
class Wanted:
    """Files of one data set."""

    data_set: str
    revision: str
    files: Sequence[HubFile]
    licence: str = ""
    gated: bool = False


def wanted(benchmark: Benchmark) -> Wanted:
    """Return the files of a benchmark."""
    files = [file for part in benchmark.parts for file in part.hub]
    return Wanted(benchmark.hub, benchmark.revision, files, benchmark.licence, benchmark.gated)


def any_files(data_set: str, revision: str, paths: Sequence[str]) -> Wanted:
    """Return files of a data set that the catalogue does not know.

    Raises:
        SpecError: not the name of a data set, no file, or a path that leads out of it.
    """
    if not DATA_SET.fullmatch(data_set):
        raise SpecError("NAME", data_set, "a benchmark of `benchmark list`, or OWNER/NAME of a hub data set")
    if not paths:
        raise SpecError("--file", "nothing", "the path of at least one file of the data set")
    for path in paths:
        if path.startswith("/") or ".." in PurePosixPath(path).parts or "\\" in path:
            raise SpecError("--file", path, "the path of a file inside the data set")
    return Wanted(data_set, revision, [HubFile(path) for path in paths])


def fetch(wanted: Wanted, folder: Path, hub: Hub) -> Manifest:
    """Bring the files into a folder and write its manifest; nothing is done when they are there already.

    Raises:
        PrerequisiteMissing: the hub cannot be reached, or does not give the files to this user.
        SpecError: no such data set, revision or file; or a file other than the catalogue expects.
    """
    found = manifest.read(folder)
    if found is not None and _has_all(found, wanted) and not list(manifest.changed(folder, found)):
        return found
    for file in wanted.files:  # before hours of download
        require_reader(folder / file.path)
    revision = _commit(wanted, hub)
    files = {file.path: _download(wanted, revision, file, folder, hub) for file in wanted.files}
    count = sum(1 for file in wanted.files for _ in rows(folder / file.path))
    made = Manifest(wanted.data_set, revision, wanted.licence, count, files)
    manifest.write(folder, made)
    return made


def _has_all(found: Manifest, wanted: Wanted) -> bool:
    same_revision = wanted.revision in (found.revision, "main")
    return found.hub == wanted.data_set and same_revision and {file.path for file in wanted.files} <= set(found.files)


def _commit(wanted: Wanted, hub: Hub) -> str:
    """Return the commit that a branch or tag stands for now."""
    if COMMIT.fullmatch(wanted.revision):
        return wanted.revision
    url = f"{hub.url}/api/datasets/{wanted.data_set}/revision/{quote(wanted.revision, safe='')}"
    with _open(url, wanted, hub) as response:
        try:
            sha = json.loads(response.read(64 << 20))["sha"]
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(url, str(error), "an answer with the commit as sha") from error
    if not isinstance(sha, str) or not COMMIT.fullmatch(sha):
        raise SpecError(url, sha, "a commit of 40 hexadecimal digits")
    return sha


def _download(wanted: Wanted, revision: str, file: HubFile, folder: Path, hub: Hub) -> str:
    """Download one file beside its place, move it there if it is what was expected, and return its hash."""
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    url = f"{hub.url}/datasets/{wanted.data_set}/resolve/{revision}/{quote(file.path)}"
    try:
        with _open(url, wanted, hub) as response:
            sha256 = _copied(response, part, file, hub)
        if file.sha256 not in (None, sha256):
            raise SpecError(url, f"a file with the SHA-256 {sha256}", f"the one that is known: {file.sha256}")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return sha256


def _copied(response: HTTPResponse, part: Path, file: HubFile, hub: Hub) -> str:
    digest = hashlib.sha256()
    told = response.headers.get("Content-Length", "")
    size = int(told) if told.isdecimal() else None
    done = 0
    try:
        with part.open("wb") as stream:
            while block := response.read(BLOCK):
                stream.write(block)
                digest.update(block)
                done += len(block)
                hub.progress(file.path, done, size)
    except (TimeoutError, ConnectionError, HTTPException) as error:
        raise _unreachable(hub, f"{file.path} broke off after {done} bytes: {error}") from error
    if size is not None and done != size:
        raise _unreachable(hub, f"{file.path} ended after {done} of {size} bytes")
    return digest.hexdigest()


def _open(url: str, wanted: Wanted, hub: Hub) -> HTTPResponse:
    request = Request(url, headers={"User-Agent": "trinity-coordinator"})  # noqa: S310 - a setting that is http or https
    parts = urlsplit(url)
    if hub.token and (parts.scheme == "https" or parts.hostname in LOOPBACK):
        # Not sent again after a redirect, which leads to a store that has no business with it.
        request.add_unredirected_header("Authorization", f"Bearer {hub.token}")
    try:
        response = urlopen(request, timeout=SECONDS)  # noqa: S310
    except HTTPError as error:
        with error:
            raise _refused(error.code, url, wanted, hub) from error
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise _unreachable(hub, str(getattr(error, "reason", error))) from error
    assert isinstance(response, HTTPResponse)
    return response


def _refused(status: int, url: str, wanted: Wanted, hub: Hub) -> Exception:
    page = f"https://huggingface.co/datasets/{wanted.data_set}"
    if status in (401, 403):
        what = f"the hub does not give {wanted.data_set} to {'this token' if hub.token else 'strangers'}"
        terms = f"accept its terms at {page} and set" if wanted.gated else "set"
        return PrerequisiteMissing(what, f"{terms} HF_TOKEN to a token of yours that may read it")
    if status == 404:
        return SpecError(url, "status 404", f"a file that {page} has")
    return _unreachable(hub, f"status {status} for {url}")


def _unreachable(hub: Hub, reason: str) -> PrerequisiteMissing:
    cure = "try again, set TRINITY_HUB_URL to a mirror, or put the files into the folder by hand (docs/datasets.md)"
    return PrerequisiteMissing(f"{hub.url} gave no file: {reason}", cure)
