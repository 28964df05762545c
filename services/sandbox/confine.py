"""Confines its own process by Landlock, a filter of system calls and resource limits, and becomes the program.

Run as a script by the interpreter that will run the program, so it uses the standard library alone and reads its
orders, one JSON document, from its first argument.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import struct
import sys
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
VERSION_FLAG, PATH_BENEATH = 1, 1
WANTED_ABI = 6
EXECUTE, WRITE_FILE, READ_FILE, READ_DIRECTORY = 1, 2, 4, 8
ALL_OF_FILES, ALL_OF_TCP, ALL_SCOPES = (1 << 16) - 1, 3, 3
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 1, 22, 38, 2
LIBRARY = ctypes.CDLL(None, use_errno=True)


def checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel has; 0 for none."""
    return max(0, int(LIBRARY.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_FLAG)))


def restrict_files(readable: list[str], listed: list[str]) -> None:
    """Allow reading below some paths, listing some folders, and nothing else: no writing, no TCP, no signals out."""
    attributes = struct.pack("=QQQ", ALL_OF_FILES, ALL_OF_TCP, ALL_SCOPES)
    ruleset = checked("landlock", LIBRARY.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    rules = [(path, EXECUTE | READ_FILE | READ_DIRECTORY) for path in readable]
    rules += [(path, READ_DIRECTORY) for path in listed]
    rules += [(path, READ_FILE | WRITE_FILE) for path in DEVICES]
    for path, rights in rules:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= ~READ_DIRECTORY
        rule = struct.pack("=Qi", rights, handle)
        checked("landlock rule", LIBRARY.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0))
        os.close(handle)
    checked("landlock", LIBRARY.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def restrict_calls(code: bytes) -> None:
    """Install a seccomp filter."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    checked("seccomp", LIBRARY.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0))


def become(orders: dict[str, Any]) -> None:
    """Give everything up, in the order in which it can be given up, and start the program."""
    checked("prctl", LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != orders["parent"]:
        raise OSError("the runner has ended")
    os.chdir("/")
    checked("prctl", LIBRARY.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    restrict_files(orders["readable"], orders["listed"])
    for which, value in orders["limits"]:
        resource.setrlimit(which, (value, value))
    restrict_calls(bytes.fromhex(orders["filter"]))
    os.execve(orders["command"][0], orders["command"], orders["environment"])  # noqa: S606


def main() -> None:
    orders = json.loads(sys.argv[1])
    os.set_inheritable(orders["status"], False)  # so that its end tells the runner that the program has begun
    try:
        become(orders)
    except BaseException as error:
        os.write(orders["status"], str(error).encode()[:1000] or b"unknown")
        raise


if __name__ == "__main__":
    main()
