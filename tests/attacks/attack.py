"""An attack: a program, and how one sees that it succeeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.core.scoring.ports import Ending, Execution, Limits
from tests.attacks.world import World

WON = b"WON"
PRELUDE = """
import json, os, sys
W = json.loads(sys.stdin.readline())
def won(why=""):
    print("WON", why, flush=True)
def attempt(action):
    try:
        action()
    except BaseException as error:
        print("refused", type(error).__name__, error, flush=True)
    else:
        won()
def syscall(number, *arguments):
    import ctypes
    library = ctypes.CDLL(None, use_errno=True)
    result = library.syscall(number, *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "syscall")
    return result
X86 = os.uname().machine == "x86_64"
"""
SMALL = Limits(cpu_seconds=0.5, wall_seconds=4.0, memory_bytes=300 << 20, output_bytes=1 << 16)
QUICK = Limits(cpu_seconds=1.0, wall_seconds=0.5, memory_bytes=300 << 20, output_bytes=1 << 16)


SLOW = {"fork bomb", "a huge number", "a huge product", "5 x 400 MB", "endless recursion", "3 GB at once"}


def nothing(world: World, done: Execution) -> str:
    return ""


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: what it tries.
        source: its program; it says WON itself when it can tell that it succeeded.
        limits: what it may use.
        harm: looks from outside, afterwards; tells what was achieved, else nothing.
        endings: how it may end; anywise when empty.
        namespaces: whether it says anything only where programs have namespaces of their own.
    """

    name: str
    source: str
    limits: Limits = SMALL
    harm: Callable[[World, Execution], str] = nothing
    endings: tuple[Ending, ...] = ()
    namespaces: bool = False

    @property
    def slow(self) -> bool:
        """Whether it uses up a limit, which takes a second and more."""
        return bool(set(self.endings) & {Ending.CPU_TIME, Ending.WALL_TIME, Ending.MEMORY}) or self.name in SLOW

    def success(self, world: World, done: Execution) -> str:
        """Return what the attack achieved, else nothing."""
        if WON in done.stdout:
            return f"it says {done.stdout[done.stdout.index(WON) :][:100]!r}"
        if self.endings and done.ending not in self.endings:
            return f"it ended with {done.ending} {done.status}: {done.stderr[-200:]!r}"
        if len(done.stdout) > self.limits.output_bytes or len(done.stderr) > self.limits.output_bytes:
            return "more output came back than was allowed"
        return self.harm(world, done)
