"""Runs a ``unittest.TestCase`` in the program's own module, because such tests patch what the program uses.

Standard input holds one JSON object: nonce, prelude, program, source, expected (names of the tests, ``Class.test``).
The verdict is one JSON line with the nonce on what was standard output. A program in the same process could forge
it with effort; what can be had is that it must mean to: without a verdict, with a test that did not run, or with a
changed ``unittest``, it fails.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import unittest
import unittest.mock
from types import TracebackType
from typing import Any

from services.core.scoring.program.inside.loading import describe, load_program

_ErrorInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
_GUARDED = (
    builtins,
    unittest.TestCase,
    unittest.TestResult,
    unittest.TestSuite,
    unittest.mock,
    unittest.mock._patch,
    unittest.mock.Mock,
    json,
    os,
)


class Record(unittest.TestResult):
    """Which tests passed, and what the first of the others met."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []
        self.first: dict[str, Any] | None = None

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802  unittest's name
        super().addSuccess(test)
        self.passed.append(name_of(test))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self.passed.append(name_of(test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._note(test, "error", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._note(test, "failure", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failure" if issubclass(err[0], test.failureException) else "error", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._note(test, "skip", (None, None, None))

    def _note(self, test: unittest.TestCase, kind: str, err: _ErrorInfo) -> None:
        told = describe(err[1]) if err[1] is not None else ["skipped", ""]
        self.first = self.first or {"test": name_of(test), "kind": kind, "error": [told[0], told[-1]]}
        self.stop()


def name_of(test: unittest.TestCase) -> str:
    """Return ``Class.test``."""
    return f"{type(test).__name__}.{getattr(test, '_testMethodName', '')}"


def surroundings() -> list[dict[str, Any]]:
    """Return the functions and classes that the tests rely on, as they are now."""
    return [{name: value for name, value in vars(owner).items() if callable(value)} for owner in _GUARDED]


def unchanged(before: list[dict[str, Any]]) -> bool:
    """Tell whether everything the tests rely on is still the same object."""
    return all(
        all(now.get(name) is value for name, value in then.items())
        for then, now in zip(before, map(vars, _GUARDED), strict=True)
    )


def run(order: dict[str, Any], before: list[dict[str, Any]]) -> dict[str, Any]:
    """Load the program, then the tests into the same module, run them, and return what came of it."""
    try:
        module = load_program(order["prelude"], order["program"], "__test__")
    except BaseException as error:  # noqa: BLE001  whatever it is, it is told
        return {"load": describe(error)}
    if not unchanged(before):
        return {"tampered": True}
    sys.modules["__main__"] = module
    try:
        exec(compile(order["source"], "<tests>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102  the sandbox
        suite = unittest.TestSuite(getattr(module, name)(test) for name, test in _split(order["expected"]))
    except BaseException as error:  # noqa: BLE001  whatever it is, it is told
        return {"unready": describe(error)}
    return _results(suite) if unchanged(before) else {"tampered": True}


def _results(suite: unittest.TestSuite) -> dict[str, Any]:
    record = Record()
    try:
        suite.run(record)
    except BaseException as error:  # noqa: BLE001  an interrupt passes through unittest
        return {"stopped": describe(error)}
    return {"ran": record.testsRun, "passed": record.passed, "first": record.first}


def _split(names: list[str]) -> list[list[str]]:
    return [name.split(".") for name in names]


def main() -> None:
    """Run the tests and write the verdict."""
    order = json.loads(sys.stdin.buffer.read())
    nonce, channel = order.pop("nonce"), os.dup(1)
    write, leave, text = os.write, os._exit, json.dumps
    os.dup2(2, 1)
    before = surroundings()
    verdict = run(order, before)
    if not unchanged(before):
        verdict = {"tampered": True}
    left = text({"nonce": nonce, **verdict}).encode() + b"\n"
    while left:
        left = left[write(channel, left) :]
    leave(0)  # what the tests left behind holds nothing up
