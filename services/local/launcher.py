"""Prepares a new process and then becomes the program it was asked to start.

Run as a file by ``processes.spawn``: ``python -I -S launcher.py ORDER PROGRAM ARGUMENT...``, ORDER being JSON.
It ties the program's life to its parent's and, for Postgres, gives up being root; ``identity`` explains the two ways.
Being a program of its own, it needs no code between fork and exec of a threaded parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

# prctl(2), capabilities(7), unshare(2): numbers of the kernel's interface, the same on every architecture.
PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWUSER = 0x10000000


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySet(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _call(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def enter_namespace(uid: int, gid: int) -> None:
    """Sees itself as ``uid``:``gid`` from now on, while the rest of the system still sees the account it came from."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def become(uid: int, gid: int) -> None:
    """Becomes ``uid``:``gid``, keeping of root's powers only that of passing file permissions."""
    _call("prctl", PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    mask = 1 << CAP_DAC_OVERRIDE
    sets = (_CapabilitySet * 2)(_CapabilitySet(mask, mask, mask), _CapabilitySet(0, 0, 0))
    _call("capset", ctypes.byref(_CapabilityHeader(CAPABILITY_VERSION_3, 0)), sets)
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def die_with_parent(parent: int, number: int) -> None:
    """Asks the kernel for signal ``number`` once the parent is gone; Linux only, elsewhere it does nothing."""
    if sys.platform != "linux":
        return
    _call("prctl", PR_SET_PDEATHSIG, number, 0, 0, 0)
    # The parent may have died before the request; then nobody would ever send the signal.
    if os.getppid() != parent:
        raise SystemExit(f"the process {parent} that started this one is gone")


def main(arguments: list[str]) -> None:
    """Applies the order in the first argument and executes the rest."""
    order = json.loads(arguments[0])
    if order["way"] == "namespace":
        enter_namespace(order["uid"], order["gid"])
    elif order["way"] == "ambient":
        become(order["uid"], order["gid"])
    # Last, because a change of credentials clears the request.
    if order["parent"]:
        die_with_parent(order["parent"], order["signal"])
    # The interpreter ignores the first two and nohup the others; what is ignored stays so across exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(arguments[1], arguments[1:], os.environ)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
