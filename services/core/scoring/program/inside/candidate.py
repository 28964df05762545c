"""Serves a program to an examiner in another process: the examiner asks on descriptor 4, this answers on descriptor 3.

Standard input holds one JSON object: prelude, program, names (what the examiner wants to use).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from services.core.scoring.program.inside.loading import describe, load_program
from services.core.scoring.program.inside.plain_values import decode, encode


class Served:
    """The objects that the examiner knows by number."""

    def __init__(self) -> None:
        self._objects: list[object] = []

    def refer(self, value: object) -> int:
        self._objects.append(value)
        return len(self._objects) - 1

    def fetch(self, number: int) -> object:
        return self._objects[number]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the examiner asks, whatever comes of it."""
        try:
            return {"value": encode(self._do(request), self.refer)}
        except BaseException as error:  # noqa: BLE001  whatever it is, the examiner is told
            return {"raised": describe(error)}

    def _do(self, request: dict[str, Any]) -> object:
        target: Any = self.fetch(request["target"])
        if request["do"] == "call":
            arguments = decode(request["arguments"], self.fetch)
            return target(*arguments, **decode(request["named"], self.fetch))
        if request["do"] == "set":
            setattr(target, request["name"], decode(request["to"], self.fetch))
            return None
        return getattr(target, request["name"])


def main() -> None:
    """Load the program, tell what it offers, and answer until the examiner is gone."""
    order = json.loads(sys.stdin.buffer.read())
    served = Served()
    with os.fdopen(4, "rb") as asked, os.fdopen(3, "wb") as told:
        told.write(_line(_offer(order, served)))
        told.flush()
        for line in asked:
            told.write(_line(served.answer(json.loads(line))))
            told.flush()


def _offer(order: dict[str, Any], served: Served) -> dict[str, Any]:
    try:
        module = load_program(order["prelude"], order["program"])
        found = [name for name in order["names"] if hasattr(module, name)]
        return {"offers": {name: encode(getattr(module, name), served.refer) for name in found}}
    except BaseException as error:  # noqa: BLE001  whatever it is, the examiner is told
        return {"load": describe(error)}


def _line(reply: dict[str, Any]) -> bytes:
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"
