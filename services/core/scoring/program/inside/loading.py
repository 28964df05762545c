"""Loading a program as a module, and saying what went wrong in one line."""

from __future__ import annotations

import sys
import types

PROGRAM = "<program>"


def load_program(prelude: str, program: str, name: str = "solution") -> types.ModuleType:
    """Run prelude and program in a new module and return it. It is not ``__main__``: its demonstrations do not run."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    for text, origin in ((prelude, "<prelude>"), (program, PROGRAM)):
        exec(compile(text, origin, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  this is the sandbox
    return module


def describe(error: BaseException) -> list[str]:
    """Return an error as its own name, the names of its built-in types, nearest first, and its message."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins" and kind is not object]
    return [type(error).__name__, *names, _message(error)]


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  a message may be any program's text
        text = ""
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    return text[:300] + line
