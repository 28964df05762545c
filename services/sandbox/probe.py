"""Runs inside a sandbox and tries to get out; prints as JSON what worked, which should be nothing.

It is run as a program by itself, so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MOST_FORKS = 200
X86 = os.uname().machine == "x86_64"
# Refused by number: a seccomp filter with a wrong number would show here.
CALLS = {
    "bpf": 321 if X86 else 280,
    "io_uring_setup": 425,
    "keyctl": 250 if X86 else 219,
    "mount": 165 if X86 else 40,
    "perf_event_open": 298 if X86 else 241,
    "personality": 135 if X86 else 92,
    "process_vm_readv": 310 if X86 else 270,
    "ptrace": 101 if X86 else 117,
    "setns": 308 if X86 else 268,
    "userfaultfd": 323 if X86 else 282,
}
EPERM = 1
Attack = tuple[str, Callable[[], object]]


def worked(attacks: list[Attack]) -> list[str]:
    """Return the names of the attacks that raised nothing."""
    names = []
    for name, attack in attacks:
        with contextlib.suppress(Exception):
            attack()
            names.append(name)
    return names


def network(port: int) -> list[Attack]:
    def datagram() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            channel.sendto(b"x", ("127.0.0.1", port))

    return [
        ("tcp", lambda: socket.create_connection(("127.0.0.1", port), timeout=1)),
        ("udp", datagram),
        ("unix", lambda: socket.socket(socket.AF_UNIX)),
        ("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
    ]


def reading(folder: str, homes: list[str]) -> list[Attack]:
    return [
        ("readable file", lambda: read(f"{folder}/answers.txt")),
        ("/etc/shadow", lambda: read("/etc/shadow")),
        *((home, partial(files_in, home)) for home in homes),
    ]


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()


def files_in(folder: str) -> None:
    """Find a file below a home; empty folders on the way to an interpreter are none."""
    for _, _, files in os.walk(folder):
        for name in files:
            if name.startswith("."):
                return
    raise FileNotFoundError(folder)


def writing(folder: str) -> list[Attack]:
    places = [folder, "/", "/etc", "/usr", "/usr/bin", "/dev", os.path.dirname(os.__file__), "/program"]
    return [(place, partial(write, place)) for place in places]


def write(folder: str) -> None:
    with open(os.path.join(folder, "trinity-sandbox-was-here"), "x"):
        pass


def refused(name: str, *arguments: int) -> None:
    """Raise when the kernel refuses a call as forbidden."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(CALLS[name], *arguments) == -1 and ctypes.get_errno() == EPERM:
        raise PermissionError(name)


def namespaces() -> list[Attack]:
    library = ctypes.CDLL(None, use_errno=True)

    def unshare(flags: int) -> None:
        if library.unshare(flags) != 0:
            raise PermissionError("unshare")

    return [
        ("user namespace", lambda: unshare(CLONE_NEWUSER)),
        ("mount namespace", lambda: unshare(CLONE_NEWNS)),
        ("root", lambda: os.setuid(0)),
        ("chroot", lambda: os.chroot("/tmp")),  # noqa: S108
    ]


def descriptors() -> list[str]:
    """Return the open descriptors beyond the three standard ones, and the one that this program may be read from."""
    found = []
    for number in {*range(3, 4096)} - {int(name) for name in [os.path.basename(__file__)] if name.isdigit()}:
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(str(number))
    return found


def processes() -> int:
    """Start processes until no more can be started, and return how many."""
    started: list[int] = []
    end, hold = os.pipe()
    with contextlib.suppress(OSError):
        while len(started) < MOST_FORKS:
            pid = os.fork()
            if pid == 0:
                os.close(hold)
                os.read(end, 1)
                os._exit(0)
            started.append(pid)
    os.close(hold)
    for pid in started:
        os.waitpid(pid, 0)
    return len(started)


def main() -> None:
    orders: dict[str, Any] = json.load(sys.stdin)
    facts = {
        "descriptors": descriptors(),
        "network": worked(network(orders["port"])),
        "files of others": worked(reading(orders["folder"], orders["homes"])),
        "writing outside": worked(writing(orders["folder"])),
        "namespaces": worked(namespaces()),
        "kernel interfaces": worked([(name, partial(refused, name, 0, 0, 0, 0, 0)) for name in CALLS]),
        "environment": sorted(os.environ),
        "processes": [str(processes())],
    }
    print(json.dumps(facts))  # noqa: T201


if __name__ == "__main__":
    main()
