"""The seccomp filter of a sandboxed program, as the kernel's own little machine code.

libseccomp is not part of a bare Python, and the filter is a list of comparisons; so it is assembled here.
"""

from __future__ import annotations

import errno
import os
import struct

from services.core.errors import PrerequisiteMissing
from services.sandbox.syscalls import ARCHITECTURES, NEWEST_REVIEWED, REFUSED, WITHOUT_NAMESPACES, Architecture

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
MASK = 0x54  # BPF_ALU | BPF_AND | BPF_K
IF_EQUAL, IF_GREATER, IF_ANY_BIT = 0x15, 0x25, 0x45  # BPF_JMP | BPF_K with JEQ, JGT, JSET
RETURN = 0x06

ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE = 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
CLONE_NEW_ANYTHING = 0x7E020080  # time, mount, cgroup, uts, ipc, user, pid and network namespaces
CLONE_THREAD = 0x00010000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # typing into a terminal
PR_SET_PDEATHSIG = 1
AF_UNIX, SOCK_STREAM, SOCKET_TYPE = 1, 1, 0xF

Instruction = tuple[int, int, int, int]


def assemble(machine: str = "", *, namespaces: bool = True) -> bytes:
    """Return the filter for a machine, this one by default.

    Args:
        machine: as ``uname -m`` names it.
        namespaces: whether the program has namespaces of its own. Without them it may start threads but no processes,
            and nothing that needs only the right user.

    Raises:
        PrerequisiteMissing: the numbers of this machine's system calls are not known.
    """
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise PrerequisiteMissing(
            f"there is no filter of system calls for {machine}", f"run on {' or '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[machine]
    code = [*only_native(architecture), *unconditional(architecture, namespaces), *by_argument(architecture)]
    if not namespaces:
        code += alone(architecture)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*code, give(ALLOW)])


def only_native(architecture: Architecture) -> list[Instruction]:
    """End a program that uses another architecture's numbers; calls newer than the list do not exist."""
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, architecture.audit),
        give(KILL),
        (LOAD, 0, 0, NUMBER),
        (IF_GREATER, 0, 1, NEWEST_REVIEWED),  # the x32 numbers of x86_64 are beyond it too
        give(ABSENT),
    ]


def unconditional(architecture: Architecture, namespaces: bool) -> list[Instruction]:
    names = REFUSED if namespaces else REFUSED | WITHOUT_NAMESPACES
    numbers = [number for columns in names.values() if (number := columns[architecture.column]) is not None]
    code = [part for number in numbers for part in ((IF_EQUAL, 0, 1, number), give(REFUSE))]
    # Its flags lie in memory, out of a filter's sight; without it the C library uses clone.
    return [*code, (IF_EQUAL, 0, 1, architecture.clone3), give(ABSENT)]


def by_argument(architecture: Architecture) -> list[Instruction]:
    return [
        *when(architecture.clone, [(LOAD, 0, 0, argument(0)), (IF_ANY_BIT, 0, 1, CLONE_NEW_ANYTHING), give(REFUSE)]),
        *when(architecture.ioctl, refuse_values(1, TIOCSTI, TIOCLINUX)),
        # The order to die with the runner may not be taken back.
        *when(architecture.prctl, refuse_values(0, PR_SET_PDEATHSIG)),
        *when(architecture.socketpair, connected_streams_only()),
    ]


def alone(architecture: Architecture) -> list[Instruction]:
    """Allow threads but no processes, and limits of this process alone."""
    return [
        *when(architecture.clone, [(LOAD, 0, 0, argument(0)), (IF_ANY_BIT, 1, 0, CLONE_THREAD), give(REFUSE)]),
        *when(architecture.prlimit, [(LOAD, 0, 0, argument(0)), (IF_EQUAL, 1, 0, 0), give(REFUSE)]),
    ]


def refuse_values(position: int, *values: int) -> list[Instruction]:
    comparisons = [part for value in values for part in ((IF_EQUAL, 0, 1, value), give(REFUSE))]
    return [(LOAD, 0, 0, argument(position)), *comparisons]


def connected_streams_only() -> list[Instruction]:
    """Refuse datagrams: a socket of theirs reaches by ``sendto`` whatever listens at a path."""
    return [
        (LOAD, 0, 0, argument(0)),
        (IF_EQUAL, 1, 0, AF_UNIX),
        give(REFUSE),
        (LOAD, 0, 0, argument(1)),
        (MASK, 0, 0, SOCKET_TYPE),
        (IF_EQUAL, 1, 0, SOCK_STREAM),
        give(REFUSE),
    ]


def when(number: int, code: list[Instruction]) -> list[Instruction]:
    """Run ``code`` for one system call only, and have the number at hand again after it."""
    body = [*code, (LOAD, 0, 0, NUMBER)]
    return [(IF_EQUAL, 0, len(body), number), *body]


def argument(position: int) -> int:
    """Return the offset of an argument's lower half; both architectures are little-endian."""
    return ARGUMENTS + 8 * position


def give(verdict: int) -> Instruction:
    return (RETURN, 0, 0, verdict)
