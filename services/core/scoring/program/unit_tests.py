"""Tests that are a ``unittest.TestCase`` and reach into the program's module: both run in the same process."""

from __future__ import annotations

import ast
import hashlib
import json
from typing import Any

from services.core.errors import Unscorable
from services.core.problem import ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner, Execution, Job
from services.core.scoring.program.bundle import READY, began, bundle
from services.core.scoring.program.jobs import limits
from services.core.scoring.program.syntax import read_python
from services.core.scoring.program.verdicts import Failure, cut, gone, loading, named, raised


def run_tests(key: str, tests: ProgramTests, program: str, runner: CodeRunner) -> Failure | None:
    """Run the tests with a program; return why it failed, or None when every test that the source holds passed."""
    expected = test_names(read_python(tests.source))
    nonce = hashlib.sha256(json.dumps([key, tests.source, program]).encode()).hexdigest()
    order = {
        "nonce": nonce,
        "prelude": tests.prelude,
        "program": program,
        "source": tests.source,
        "expected": expected,
    }
    execution = began(runner.run(Job(bundle("loading", "testing"), json.dumps(order).encode(), limits(tests))))
    verdict = _verdict(execution, nonce)
    if verdict is not None and "unready" in verdict:
        _check_imports(key, tests, runner)
    return _judge(verdict, expected, execution)


def _check_imports(key: str, tests: ProgramTests, runner: CodeRunner) -> None:
    """Find out, without the program, whether the tests lack a package here: that is nobody's wrong answer.

    Raises:
        Unscorable: they do.
    """
    imports = [item for item in read_python(tests.source).body if isinstance(item, ast.Import | ast.ImportFrom)]
    source = "\n".join(map(ast.unparse, imports))
    execution = began(runner.run(Job(READY + source, b"", limits(tests))))
    if execution.status != 0:
        told = execution.stderr[-200:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Unscorable(key, f"its tests do not run: {told}")


def test_names(tree: ast.Module) -> list[str]:
    """Return the tests of a source as ``Class.test``, inherited ones of its own classes included."""
    methods: dict[str, list[str]] = {}
    for item in tree.body:
        if isinstance(item, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in item.bases]
            if not any(base.endswith("TestCase") or base in methods for base in bases):
                continue
            inherited = [name for base in bases for name in methods.get(base, [])]
            own = [
                part.name for part in item.body if isinstance(part, ast.FunctionDef) and part.name.startswith("test")
            ]
            methods[item.name] = list(dict.fromkeys([*inherited, *own]))
    return [f"{name}.{test}" for name, tests in methods.items() for test in sorted(tests)]


def _verdict(execution: Execution, nonce: str) -> dict[str, Any] | None:
    """Return the verdict, or None when there is none with the nonce, or more than one."""
    found = []
    for line in execution.stdout.split(b"\n"):
        try:
            verdict = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(verdict, dict) and verdict.get("nonce") == nonce:
            found.append(verdict)
    return found[0] if len(found) == 1 else None


def _judge(verdict: dict[str, Any] | None, expected: list[str], execution: Execution) -> Failure | None:
    if verdict is None:
        return gone(execution)
    if "load" in verdict:
        return loading(verdict["load"])
    if "stopped" in verdict:
        return raised(*named(verdict["stopped"]))
    if "unready" in verdict:
        return Failure(Outcome.CRASH, cut(f"its tests could not be loaded: {': '.join(named(verdict['unready']))}"))
    if "tampered" in verdict:
        return Failure(Outcome.WRONG, "it replaced parts of Python that its tests rely on")
    if verdict.get("passed") == expected and verdict.get("ran") == len(expected) and verdict.get("first") is None:
        return None
    return _first_failure(verdict.get("first"), expected)


def _first_failure(first: Any, expected: list[str]) -> Failure:
    """Return why the first test failed; an assertion's message may hold what was wanted, so it is not told."""
    if not isinstance(first, dict) or first.get("test") not in expected:
        return Failure(Outcome.WRONG, "not every test ran")
    number = expected.index(first["test"]) + 1
    where = f" in test {number} of {len(expected)}"
    if first.get("kind") == "error":
        failure = raised(named(first.get("error"))[0], "")
        return Failure(failure.outcome, failure.what + where)
    return Failure(
        Outcome.WRONG, f"it is wrong{where}" if first.get("kind") == "failure" else f"a test was skipped{where}"
    )
