"""What of this machine a Python interpreter needs to run: its standard library and the libraries these load.

Only that is shown to a sandboxed program: not the packages of our own environment, and nothing of ours.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.core.errors import PrerequisiteMissing

PROBE = """
import ctypes, glob, json, os, re, sys, sysconfig
folders = sorted({os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})
for folder in folders:
    for module in glob.glob(os.path.join(folder, "lib-dynload", "*.so")):
        try:
            ctypes.CDLL(module)
        except OSError:
            pass
mapped = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
libraries = sorted(path for path in mapped if re.search(r"[.]so($|[.])", path) and os.path.exists(path))
print(json.dumps({"version": sys.version.split()[0], "folders": folders, "libraries": libraries}))
"""
WHERE = (
    "import json, sys, sysconfig; print(json.dumps({'base': sys._base_executable, 'prefix': sys.prefix,"
    " 'packages': [sysconfig.get_path(name) for name in ('purelib', 'platlib')]}))"
)
PROBE_SECONDS = 60
TOP_LEVEL = ("/bin", "/lib", "/lib64", "/sbin")
HIDDEN_NAMES = ("site-packages", "dist-packages")
ALSO_SHOWN = ("/etc/ld.so.cache", "/usr/bin", "/usr/share/zoneinfo")
CURE = "name a Python of 3.11 or newer that is installed completely"
ELF_INTERPRETER = 3


@dataclass(frozen=True)
class Interpreter:
    """An interpreter and everything it needs.

    Attributes:
        executable: what is run; a real file, or a link inside an environment.
        version: for people.
        shown: files and folders that appear read-only under their own paths.
        links: symbolic links to make: path, target.
        hidden: folders inside the shown ones that must look empty.
        packages: whether the packages of its environment are visible.
    """

    executable: str
    version: str
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    packages: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command up to the program's path: nothing of the user's, no path of the program's folder."""
        return (self.executable, "-s", "-P", "-B", "-X", "utf8", *(() if self.packages else ("-S",)))


def of_this_process() -> Interpreter:
    """Return the interpreter below this process's own environment, without any packages."""
    return bare(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))


def of_environment(python: Path) -> Interpreter:
    """Return another environment's interpreter, with the packages installed there.

    Raises:
        PrerequisiteMissing: it does not run, or not with what it was built with.
    """
    found = ask(str(python), WHERE, "-I")
    below = bare(os.path.realpath(found["base"]))
    shown = {os.path.realpath(path) for path in found["packages"] if os.path.isdir(path)}
    links, executable = list(below.links), below.executable
    if (settings := Path(found["prefix"]) / "pyvenv.cfg").exists():
        shown.add(str(settings))
        executable = str(Path(found["prefix"]) / "bin" / "python")
        links.append((executable, below.executable))
    hidden = tuple(path for path in below.hidden if path not in shown)
    return replace(
        below,
        executable=executable,
        shown=outermost([*below.shown, *shown]),
        links=tuple(links),
        hidden=hidden,
        packages=True,
    )


def bare(executable: str) -> Interpreter:
    """Return the interpreter in a file, with its standard library."""
    found = ask(executable, PROBE, "-I", "-S")
    shown: set[str] = {executable}
    links: dict[str, str] = {}
    for path in [*found["libraries"], program_loader(executable)]:
        more, linked = library(path)
        shown |= more
        links |= linked
    for path in TOP_LEVEL:
        if os.path.islink(path):
            links[path] = os.readlink(path)
    shown |= {path for path in ALSO_SHOWN if os.path.exists(path)}
    hidden = [os.path.join(folder, name) for folder in found["folders"] for name in HIDDEN_NAMES]
    kept = outermost([*found["folders"], *shown])
    return Interpreter(
        executable,
        found["version"],
        kept,
        tuple(sorted((path, target) for path, target in links.items() if not inside(path, kept))),
        tuple(path for path in hidden if os.path.isdir(path)),
    )


def ask(executable: str, question: str, *flags: str) -> dict[str, Any]:
    try:
        answer = subprocess.run(
            [executable, *flags, "-c", question], capture_output=True, check=True, timeout=PROBE_SECONDS, env={}
        )
        found: dict[str, Any] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise PrerequisiteMissing(f"the interpreter {executable} cannot be used in a sandbox: {error}", CURE) from error
    return found


def library(path: str) -> tuple[set[str], dict[str, str]]:
    """Return what to show for a shared library, and the links by which programs find it.

    A folder that holds nothing but an architecture's libraries is shown as a whole, which is one mount instead of
    thirty; of any other folder, only this library.
    """
    folder, real = os.path.realpath(os.path.dirname(path)), os.path.realpath(path)
    if is_library_folder(folder):
        return {folder}, {}
    beside = {entry.path for entry in os.scandir(folder) if entry.is_symlink() and os.path.realpath(entry.path) == real}
    shown = {os.path.dirname(real)} if is_library_folder(os.path.dirname(real)) else {real}
    return shown, {link: os.path.relpath(real, folder) for link in beside}


def is_library_folder(folder: str) -> bool:
    return re.fullmatch(r"[a-z0-9_]+-linux-(gnu|musl)[a-z0-9]*", os.path.basename(folder)) is not None


def program_loader(executable: str) -> str:
    """Return the path of the loader that an ELF file names, else the file itself."""
    with open(executable, "rb") as file:
        head = file.read(4096)
    if head[:5] != b"\x7fELF\x02":
        return executable
    (offset,) = struct.unpack_from("=Q", head, 0x20)
    size, count = struct.unpack_from("=HH", head, 0x36)
    for at in range(offset, min(offset + size * count, len(head) - size), size):
        if struct.unpack_from("=I", head, at) == (ELF_INTERPRETER,):
            start, length = struct.unpack_from("=Q", head, at + 8)[0], struct.unpack_from("=Q", head, at + 32)[0]
            return head[start : start + length].rstrip(b"\0").decode()
    return executable


def outermost(paths: list[str]) -> tuple[str, ...]:
    """Return the paths without those that lie inside another of them."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not inside(path, kept):
            kept.append(path)
    return tuple(kept)


def inside(path: str, folders: list[str] | tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
