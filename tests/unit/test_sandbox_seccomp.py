"""The filter of system calls, run by a small machine of its own: what it refuses and what it lets through."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.errors import PrerequisiteMissing
from services.sandbox import seccomp
from services.sandbox.syscalls import ARCHITECTURES, NEWEST_REVIEWED, REFUSED, WITHOUT_NAMESPACES

MACHINES = sorted(ARCHITECTURES)
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
SIGCHLD, THREAD = 17, 0x3D0F00


def verdict(code: bytes, number: int, arguments: tuple[int, ...] = (), audit: int | None = None) -> int:
    """Run the filter on one system call."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit or 0, 0, *(arguments + (0,) * 6)[:6])
    program = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at, held = 0, 0
    while True:
        what, then, otherwise, value = program[at]
        at += 1
        if what == seccomp.RETURN:
            return int(value)
        if what == seccomp.LOAD:
            held = struct.unpack_from("=I", data, value)[0]
        elif what == seccomp.MASK:
            held &= value
        else:
            met = {
                seccomp.IF_EQUAL: held == value,
                seccomp.IF_GREATER: held > value,
                seccomp.IF_ANY_BIT: bool(held & value),
            }[what]
            at += then if met else otherwise


class Filter:
    def __init__(self, machine: str, *, namespaces: bool = True) -> None:
        self.here = ARCHITECTURES[machine]
        self.code = seccomp.assemble(machine, namespaces=namespaces)

    def __call__(self, number: int, *arguments: int) -> int:
        return verdict(self.code, number, arguments, self.here.audit)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespaces", [True, False])
def test_every_call_of_the_list_is_refused_and_all_others_pass(machine: str, namespaces: bool) -> None:
    run = Filter(machine, namespaces=namespaces)
    listed = REFUSED if namespaces else REFUSED | WITHOUT_NAMESPACES
    refused = {columns[run.here.column] for columns in listed.values()}
    special = {run.here.clone, run.here.clone3, run.here.ioctl, run.here.prctl, run.here.prlimit, run.here.socketpair}
    for number in range(NEWEST_REVIEWED + 1):
        if number not in special:
            assert run(number) == (EPERM if number in refused else seccomp.ALLOW), number


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(NEWEST_REVIEWED + 1, 0xFFFFFFFF))
def test_what_is_newer_than_the_list_does_not_exist(machine: str, number: int) -> None:
    assert Filter(machine)(number) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@given(audit=st.integers(0, 0xFFFFFFFF), number=st.integers(0, 500))
def test_numbers_of_another_architecture_end_the_program(machine: str, audit: int, number: int) -> None:
    run = Filter(machine)
    if audit != run.here.audit:
        assert verdict(run.code, number, audit=audit) == seccomp.KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide(machine: str) -> None:
    run, alone = Filter(machine), Filter(machine, namespaces=False)
    here = run.here
    assert run(here.clone, SIGCHLD) == run(here.clone, THREAD) == alone(here.clone, THREAD) == seccomp.ALLOW
    assert alone(here.clone, SIGCHLD) == EPERM
    for bit in (0x80, 0x20000, *(1 << shift for shift in range(25, 31))):
        assert run(here.clone, bit | SIGCHLD) == EPERM
    assert run(here.clone3) == ENOSYS
    assert [run(here.ioctl, 0, request) for request in (0x5412, 0x541C, 0x5401)] == [EPERM, EPERM, seccomp.ALLOW]
    assert [run(here.prctl, option) for option in (1, 15)] == [EPERM, seccomp.ALLOW]
    assert [alone(here.prlimit, process) for process in (0, 77)] == [seccomp.ALLOW, EPERM]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "kind", "allowed"),
    [(1, 1, True), (1, 1 | 0o2000000, True), (1, 2, False), (1, 5, False), (2, 1, False), (16, 3, False)],
)
def test_only_connected_local_streams_can_be_made(machine: str, family: int, kind: int, allowed: bool) -> None:
    run = Filter(machine)
    assert run(run.here.socketpair, family, kind) == (seccomp.ALLOW if allowed else EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is not installed")
    text = HEADERS[machine].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    here = ARCHITECTURES[machine]
    for name, columns in (REFUSED | WITHOUT_NAMESPACES).items():
        number = columns[here.column]
        if number is not None and name in known:
            assert known[name] == number, name
    names = {"clone", "clone3", "ioctl", "prctl", "socketpair"}
    assert {name: getattr(here, name) for name in names} == {name: known[name] for name in names}
    assert here.prlimit == known["prlimit64"]


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(PrerequisiteMissing, match="riscv64"):
        seccomp.assemble("riscv64")
