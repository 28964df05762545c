"""Work for a process of its own: what loads models or their clients stays out of the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import typer

from services.core.errors import TrinityError


def answer(module: str, words: Sequence[str], needed: Sequence[str] = ()) -> Any:
    """Return the JSON that ``python -m module words`` prints last; libraries may have talked before.

    Args:
        module: what to run.
        words: its arguments.
        needed: packages without which it need not be tried.

    Raises:
        ModuleNotFoundError: one of those is not installed.
        TrinityError: a signal ended it, such as that of a system that is out of memory.
        typer.Exit: it failed and has said why.
    """
    for name in needed:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    done = subprocess.run([sys.executable, "-m", module, *words], stdout=subprocess.PIPE, check=False)
    if done.returncode < 0:
        ended = signal.Signals(-done.returncode).name
        raise TrinityError(f"python -m {module} was ended by {ended}; if that was for want of memory, free some")
    if done.returncode != 0:
        raise typer.Exit(1)
    return json.loads(done.stdout.splitlines()[-1])
