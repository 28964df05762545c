"""The text of what runs in the sandbox: modules of ``inside``, which import one another but nothing else of ours."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

from services.core.errors import GradingUnavailable
from services.core.scoring.ports import Execution

_INSIDE = f"{__package__}.inside"
_READY = "ready\n"

# Before anything of the program or of a data set runs, it says so: what ended earlier is nobody's answer.
READY = f'__import__("os").write(2, {_READY.encode()!r})\n'

_SHELL = """\
import sys, types
for name, text in {modules!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


@cache
def bundle(*names: str) -> str:
    """Return a program that runs ``main`` of the last named module of ``inside``, with the others at hand."""
    folder = files(_INSIDE)
    return READY + _SHELL.format(
        modules=[(f"{_INSIDE}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in names]
    )


def began(execution: Execution) -> Execution:
    """Return a run without our mark, if what we sent into the sandbox came as far as the program.

    Raises:
        GradingUnavailable: it did not, so nothing can be said of the program.
    """
    mark = _READY.encode()
    if execution.stderr.startswith(mark):
        return replace(execution, stderr=execution.stderr[len(mark) :])
    told = execution.stderr[-300:].decode("utf-8", "replace").strip()
    raise GradingUnavailable(
        f"the sandbox ended ({execution.ending}, status {execution.status}) before a program began: {told}"
    )
