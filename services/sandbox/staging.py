"""Showing a user without rights what only root can reach, such as an interpreter below /root.

The runner gives up root's rights before it runs anything. What it still needs then is mounted in a mount namespace of
the runner alone, over its own /tmp; it vanishes with the runner, and no file is copied.
"""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

from services.core.errors import PrerequisiteMissing

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
PLACE = Path("/tmp")  # noqa: S108 - the runner's own, after it was mounted over
CURE = "install it where every user may read it, or run as an ordinary user who may"


def reachable(path: str) -> bool:
    """Tell whether every user can read a file, or a folder and what lies in it by its own permissions."""
    real = Path(path).resolve()
    try:
        folders_open = all(above.stat().st_mode & stat.S_IXOTH for above in real.parents)
        return folders_open and bool(real.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def stage(paths: list[str]) -> dict[str, str]:
    """Return where each path can be reached after root's rights are gone: itself, or its place in /tmp.

    Raises:
        PrerequisiteMissing: one is out of reach, and this process may not mount.
    """
    hidden = [path for path in paths if not reachable(path)]
    places = {path: path for path in paths}
    if not hidden or os.geteuid() != 0:
        return places
    hidden += [path for path in paths if path not in hidden and PLACE in Path(path).resolve().parents]
    try:
        call("unshare", CLONE_NEWNS)
        mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
        handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in hidden}
        mount(b"tmpfs", os.fsencode(PLACE), b"tmpfs", MS_NOSUID | MS_NODEV)
        PLACE.chmod(0o1777)
        for number, (path, handle) in enumerate(handles.items()):
            places[path] = str(bound(handle, PLACE / f"shown-{number}"))
            os.close(handle)
    except OSError as error:
        raise PrerequisiteMissing(
            f"{hidden[0]} can be read by root alone, and cannot be shown to others here: {error}", CURE
        ) from error
    return places


def bound(handle: int, place: Path) -> Path:
    """Mount an open file or folder at a new place."""
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        place.mkdir()
    else:
        place.touch()
    mount(f"/proc/self/fd/{handle}".encode(), os.fsencode(place), None, MS_BIND | MS_REC)
    return place


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    call("mount", source, target, kind, ctypes.c_ulong(flags), None)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns -1 with errno.

    Raises:
        OSError: it did.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library[name](*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
