"""Calls a function of the program with each case's arguments and writes one line for each answer.

Standard input holds one JSON object: prelude, program, entry_point, cases (JSON arrays as texts). The answers go to
what was standard output; what the program prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from services.core.scoring.program.inside.loading import describe, load_program
from services.core.scoring.program.inside.plain_values import NotPlain, encode


def main() -> None:
    """Answer every case; a program that cannot be loaded answers the first with why."""
    order = json.loads(sys.stdin.buffer.read())
    channel = os.dup(1)
    os.dup2(2, 1)
    _answer_all(order, channel)
    os._exit(0)  # what the program left behind holds nothing up


def _answer_all(order: dict[str, Any], channel: int) -> None:
    try:
        module = load_program(order["prelude"], order["program"])
        function = _find(module, order["entry_point"])
    except BaseException as error:  # noqa: BLE001  whatever it is, it is told
        _write(channel, {"load": describe(error)})
        return
    if function is None:
        _write(channel, {"missing": True})
        return
    for number, given in enumerate(order["cases"]):
        _write(channel, {"case": number, **_answer(function, given)})


def _find(module: Any, name: str) -> Callable[[], Callable[..., Any]] | None:
    """Return what gives the function for one case: a method gets a fresh object each time."""
    solution = getattr(module, "Solution", None)
    if isinstance(solution, type) and callable(getattr(solution, name, None)):
        return lambda: getattr(solution(), name)
    if callable(getattr(module, name, None)):
        return lambda: getattr(module, name)
    return None


def _answer(function: Callable[[], Callable[..., Any]], given: str) -> dict[str, Any]:
    try:
        return {"value": encode(function()(*json.loads(given)))}
    except NotPlain as error:
        return {"unfit": str(error)}
    except BaseException as error:  # noqa: BLE001  whatever it is, it is told
        return {"raised": describe(error)}


def _write(channel: int, reply: dict[str, Any]) -> None:
    left = json.dumps(reply, separators=(",", ":")).encode() + b"\n"
    while left:
        left = left[os.write(channel, left) :]
