"""A wall clock that can be stepped under running processes, where a C compiler is at hand."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


@dataclass(frozen=True)
class SteppedClock:
    """The clock of every process that starts with ``environment``."""

    library: Path
    offset: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.offset)}

    def step(self, seconds: int) -> None:
        """Let the clock be ``seconds`` ahead of the true time from now on, at once."""
        with self.offset.open("r+b") as file:
            file.write(struct.pack("<q", seconds))


def build(folder: Path) -> SteppedClock | None:
    """Compile the library into ``folder``; None where that is impossible."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    library, offset = folder / "clock.so", folder / "clock"
    offset.write_bytes(struct.pack("<q", 0))
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], capture_output=True, env=os.environ
    )
    return SteppedClock(library, offset) if built.returncode == 0 else None
