"""Attacks on the kernel's wide interfaces, and on privileges."""

from __future__ import annotations

from services.core.scoring.ports import Ending
from tests.attacks.attack import Attack


def call(name: str, x86: int, other: int, arguments: str = "0, 0, 0, 0, 0") -> Attack:
    return Attack(name, f"attempt(lambda: syscall({x86} if X86 else {other}, {arguments}))")


# Any call of 32 bits would pass by a filter that knows only the numbers of 64.
OTHER_NUMBERS = """
import ctypes, mmap
if X86:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("53b814000000cd805bc3"))  # getpid by int 0x80
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0: won()
else:
    os.kill(os.getpid(), 9)
"""
SETUID = """
import shutil, subprocess
def go():
    shutil.copy('/usr/bin/id', '/tmp/id')
    os.chmod('/tmp/id', 0o4755)
    for command in (['/tmp/id', '-u'], ['/usr/bin/su', '-c', 'id -u'], ['/usr/bin/sudo', '-n', 'id', '-u']):
        try:
            out = subprocess.run(command, capture_output=True, text=True).stdout
        except OSError:
            continue
        if out.strip() == '0': won(command[0])
try:
    go()
except OSError as error:
    print(error)
"""

ATTACKS = (
    call("a user namespace by unshare", 272, 97, "0x10000000"),
    call("a user namespace by clone", 56, 220, "0x10000011, 0, 0, 0, 0"),
    call("a user namespace by clone3", 435, 435, "0, 0"),
    call("a mount namespace", 272, 97, "0x20000"),
    call("joining a namespace", 308, 268),
    call("mounting", 165, 40, "b'none', b'/tmp', b'tmpfs', 0, 0"),
    call("unmounting", 166, 39, "b'/tmp', 2"),
    call("a new root", 155, 41, "b'/tmp', b'/tmp'"),
    call("mounts of the new kind", 430, 430, "b'tmpfs', 0"),
    Attack("chroot", "attempt(lambda: os.chroot('/tmp'))"),
    Attack("becoming root", "attempt(lambda: os.setuid(0))"),
    Attack("becoming another group", "attempt(lambda: os.setgroups([0]))"),
    Attack("a setuid program", SETUID),
    Attack(
        "capabilities",
        "for line in open('/proc/self/status') if os.path.exists('/proc/self/status') else []:\n"
        "    if line.startswith(('CapEff', 'CapPrm')) and int(line.split()[1], 16): won(line)\n",
    ),
    call("io_uring", 425, 425, "8, b'\\0' * 120"),
    call("bpf", 321, 280, "0, b'\\0' * 72, 72"),
    call("perf", 298, 241, "b'\\0' * 128, 0, -1, -1, 0"),
    call("keys", 250, 219, "0, -3, 1"),
    call("adding keys", 248, 217, "b'user', b'x', b'x', 1, -3"),
    call("page faults in user mode", 323, 282, "1"),
    call("another personality", 135, 92, "0x0040000"),
    call("the clock", 227, 112, "0, b'\\0' * 16"),
    call("the name of the machine", 170, 161, "b'x', 1"),
    call("kernel modules", 175, 105, "b'', 0, b''"),
    call("the kernel's log", 103, 116, "3, b'\\0' * 100, 100"),
    call("rebooting", 169, 142, "0, 0, 0, 0"),
    call("swap", 167, 224, "b'/tmp/x', 0"),
    call("a system call that is newer than the filter", 470, 470),
    call("a system call of the x32 kind", 0x40000000 + 39, 470),
    Attack("a system call of 32 bits", OTHER_NUMBERS, endings=(Ending.KILLED,)),
    Attack(
        "typing into a terminal",
        "import fcntl\ndef go():\n    master, slave = os.openpty()\n    fcntl.ioctl(slave, 0x5412, b'x')\nattempt(go)",
    ),
    Attack("the terminal of the runner", "attempt(lambda: os.open('/dev/tty', os.O_RDWR))"),
)
