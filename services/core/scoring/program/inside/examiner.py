"""Runs the tests of a program that lives in another process; the tests reach it through stand-ins for its functions.

Standard input holds one JSON object: prelude, source, entry_point, names. It asks on descriptor 3 and is answered on
descriptor 4. Its verdict is one JSON line on standard output. No object of the program ever lives here: what comes back
is a plain value, or a stand-in that equals nothing but itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import sys
import traceback
from typing import Any, BinaryIO

from services.core.scoring.program.inside.plain_values import NotPlain, decode, encode

TESTS = "<tests>"
_LONGEST_REPLY = 1 << 24
_UNREADABLE = (
    NotPlain, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError,
)  # fmt: skip


class ProgramLost(Exception):
    """The program cannot be asked any more; the verdict is settled."""


class Link:
    """The connection with the program. ``settled`` is a verdict that no test can change any more."""

    def __init__(self, told: BinaryIO, asked: BinaryIO) -> None:
        self._told = told
        self._asked = asked
        self.settled: dict[str, Any] | None = None
        self.raised: tuple[BaseException, list[str]] | None = None
        self.calls = 0

    def settle(self, **verdict: Any) -> ProgramLost:
        """Keep the first lasting verdict; return an error to raise, which tests may swallow in vain."""
        self.settled = self.settled or verdict
        return ProgramLost(verdict["state"])

    def receive(self) -> dict[str, Any]:
        """Return the program's next message."""
        try:
            line = self._asked.readline(_LONGEST_REPLY)
            if not line:
                raise self.settle(state="gone")
            if not line.endswith(b"\n"):
                raise self.settle(state="unfit", what="an answer is too long")
            reply = json.loads(line)
            if type(reply) is dict and len(reply) == 1:
                return reply
        except (ValueError, RecursionError, MemoryError, OSError):
            pass
        raise self.settle(state="unfit", what="an answer cannot be read")

    def ask(self, **request: Any) -> Any:
        """Have the program do something and return its answer, or raise what it raised."""
        if self.settled:
            raise ProgramLost("the program is lost")
        self.calls += request["do"] == "call"
        try:
            self._told.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            self._told.flush()
        except OSError:
            raise self.settle(state="gone") from None
        reply = self.receive()
        if "value" in reply:
            return self.value(reply["value"])
        raise self._error(reply.get("raised"))

    def value(self, data: Any) -> Any:
        """Return the value of an answer."""
        try:
            return decode(data, self._stand_in)
        except _UNREADABLE:
            raise self.settle(state="unfit", what="an answer cannot be read") from None

    def _stand_in(self, number: int) -> StandIn:
        if type(number) is not int:
            raise NotPlain("no number of an object")
        return StandIn(self, number)

    def _error(self, names: Any) -> BaseException:
        if type(names) is not list or len(names) < 2 or not all(type(name) is str for name in names):
            return self.settle(state="unfit", what="an answer cannot be read")
        error = _built_in_error(names[1:-1], names[-1])
        if error is None:
            return self.settle(state="raised", what=f"{names[0]}: {names[-1]}")
        self.raised = (error, names)
        return error


class StandIn:
    """An object of the program, as seen by the tests: it can be called and has attributes; no comparison reaches it."""

    __slots__ = ("_link", "_number")
    _link: Link
    _number: int

    def __init__(self, link: Link, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        sent = [self._send(list(arguments)), self._send(named)]
        return self._link.ask(do="call", target=self._number, arguments=sent[0], named=sent[1])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.ask(do="get", target=self._number, name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask(do="set", target=self._number, name=name, to=self._send(value))

    def _send(self, value: Any) -> Any:
        try:
            return encode(value, _number_of)
        except NotPlain as error:
            raise self._link.settle(state="broken", what=f"a test passes what cannot be sent: {error}") from None


def _number_of(value: object) -> int:
    if isinstance(value, StandIn):
        return value._number
    raise NotPlain(f"a value of type {type(value).__name__} is not plain")


def _built_in_error(names: list[str], message: str) -> Exception | None:
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(message)
            except TypeError:
                continue
    return None


def examine(order: dict[str, Any], link: Link) -> dict[str, Any]:
    """Return the verdict of the tests."""
    space: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(order["prelude"], "<prelude>", "exec", dont_inherit=True), space)  # noqa: S102  the sandbox
        tests = compile(order["source"], TESTS, "exec", dont_inherit=True)
    except Exception as error:  # noqa: BLE001  whatever it is, the tests are no good
        return {"state": "broken", "what": f"{type(error).__name__}: {error}"[:300]}
    try:
        subject = _bind(order, link, space)
        exec(tests, space)  # noqa: S102  the sandbox
        if order["call_check"]:
            space["check"](subject)
    except ProgramLost:
        pass
    except BaseException as error:  # noqa: BLE001  whatever it is, the program did not pass
        return link.settled or _failure(error, order["source"], link)
    if link.settled:
        return link.settled
    return {"state": "passed", "calls": link.calls} if link.calls else {"state": "broken", "what": "no test calls it"}


def _bind(order: dict[str, Any], link: Link, space: dict[str, Any]) -> Any:
    """Give the tests what they use of the program; return the stand-in of its entry point."""
    first = link.receive()
    if "load" in first:
        raise link.settle(state="load", what=_told(first["load"]))
    offers = first.get("offers")
    if type(offers) is not dict:
        raise link.settle(state="unfit", what="an answer cannot be read")
    if order["entry_point"] not in offers:
        raise link.settle(state="missing", what=order["entry_point"])
    for name in order["names"]:
        if name in sys.stdlib_module_names:
            space[name] = importlib.import_module(name)
        elif name in offers:
            space[name] = link.value(offers[name])
    return space[order["entry_point"]]


def _told(names: Any) -> str:
    ours = type(names) is list and len(names) > 1 and all(type(name) is str for name in names)
    return f"{names[0]}: {names[-1]}"[:300] if ours else "an error"


def _failure(error: BaseException, source: str, link: Link) -> dict[str, Any]:
    """Return where the tests stopped: never what they wanted."""
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == TESTS]
    asserts = [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    where = {"number": sum(line <= lines[-1] for line in asserts) if lines else 0, "of": len(asserts)}
    if link.raised and link.raised[0] is error:
        return {"state": "raised", "what": _told(link.raised[1]), **where}
    if isinstance(error, ImportError):
        return {"state": "broken", "what": str(error)[:300]}
    if isinstance(error, AssertionError):
        return {"state": "failed", **where}
    return {"state": "upset", "what": type(error).__name__, **where}


def main() -> None:
    """Examine, and write the verdict."""
    order = json.loads(sys.stdin.buffer.read())
    channel = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(3, "wb") as told, os.fdopen(4, "rb") as asked:
        verdict = examine(order, Link(told, asked))
        os.write(channel, json.dumps(verdict).encode() + b"\n")
        os._exit(0)  # what the tests left behind holds nothing up
