"""Tests in Python that call the program: they run in one sandbox, the program in another."""

from __future__ import annotations

import ast
import builtins
import json
from typing import Any

from services.core.errors import Unscorable
from services.core.problem import ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner, Ending, Execution, Job
from services.core.scoring.program.bundle import began, bundle
from services.core.scoring.program.jobs import limits
from services.core.scoring.program.syntax import read_python
from services.core.scoring.program.verdicts import Failure, cut, gone, over_limit, raised

_BUILT_IN = frozenset(dir(builtins))


def run_tests(key: str, tests: ProgramTests, program: str, runner: CodeRunner) -> Failure | None:
    """Run the tests against a program; return why it failed, or None when it passed.

    Raises:
        Unscorable: the tests themselves do not run.
    """
    tree = read_python(tests.source)
    entry_point = str(tests.entry_point)
    names = sorted({entry_point, *_names_to_ask_for(tree, tests.prelude)})
    candidate = {"prelude": tests.prelude, "program": program, "names": names}
    examiner = {
        "prelude": tests.prelude,
        "source": tests.source,
        "entry_point": entry_point,
        "names": names,
        "call_check": calls_for_check(tree),
    }
    ended, asked = runner.examine(
        Job(bundle("plain_values", "examiner"), json.dumps(examiner).encode(), limits(tests)),
        Job(bundle("plain_values", "loading", "candidate"), json.dumps(candidate).encode(), limits(tests)),
    )
    return _judge(key, _verdict(began(ended)), ended, began(asked))


def calls_for_check(tree: ast.Module) -> bool:
    """Tell whether the tests are a function ``check(candidate)`` that nothing calls yet."""
    defined = any(isinstance(item, ast.FunctionDef) and item.name == "check" for item in tree.body)
    called = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"
        for item in tree.body
        if not isinstance(item, ast.FunctionDef)
        for node in ast.walk(item)
    )
    return defined and not called


def _names_to_ask_for(tree: ast.Module, prelude: str) -> set[str]:
    """Return the names that the tests use and neither they, the prelude nor Python define."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - _defined(tree) - _defined(read_python(prelude)) - _BUILT_IN


def _defined(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def _verdict(ended: Execution) -> dict[str, Any]:
    """Return what the examiner wrote; it is not the program's, but its tests are a data set's."""
    try:
        verdict = json.loads(ended.stdout)
    except (ValueError, RecursionError):
        return {"state": "none"}
    return verdict if isinstance(verdict, dict) else {"state": "none"}


def _judge(key: str, verdict: dict[str, Any], ended: Execution, asked: Execution) -> Failure | None:
    what, number = str(verdict.get("what", "")), verdict.get("number") or 0
    where = f" at assertion {number} of {verdict.get('of')}" if number else ""
    match verdict.get("state"):
        case "passed":
            return None
        case "broken":
            raise Unscorable(key, cut(f"its tests do not run: {what}"))
        case "failed":
            return Failure(Outcome.WRONG, f"it is wrong{where}")
        case "upset":
            return Failure(Outcome.WRONG, cut(f"the tests met {what}{where}"))
        case "missing":
            return Failure(Outcome.WRONG, "the program does not define the function asked for")
        case "unfit":
            return Failure(Outcome.WRONG, f"it sent no plain value: {what}")
        case "raised" | "load" as state:
            failure = raised(*(what.split(": ", 1) if ": " in what else (what, "")))
            return Failure(
                failure.outcome, failure.what + (where or (" when it was loaded" if state == "load" else ""))
            )
        case "gone":
            return gone(asked)
        case _:
            return _no_verdict(ended, asked)


def _no_verdict(ended: Execution, asked: Execution) -> Failure:
    """Return the failure when the examiner said nothing: the program's end comes first, it may be why."""
    failure = over_limit(asked) or over_limit(ended)
    if failure is not None:
        return failure
    how = "was killed" if ended.ending is Ending.KILLED else f"ended with status {ended.status}"
    return Failure(Outcome.CRASH, f"its tests gave no verdict: they {how}")
