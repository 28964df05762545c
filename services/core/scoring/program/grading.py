"""A grade for a program, and whether a problem's tests can give one."""

from __future__ import annotations

import ast
import json
import math
from typing import assert_never

from services.core.errors import Unscorable
from services.core.problem import Case, Problem, ProgramForm, ProgramTests
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.ports import CodeRunner
from services.core.scoring.program import assertions, function, stdin, unit_tests
from services.core.scoring.program.extraction import find_program
from services.core.scoring.program.syntax import NotPython, read_python
from services.core.scoring.program.verdicts import Failure, cut


def grade_program(problem: Problem, answer: str, runner: CodeRunner, *, truncated: bool = False) -> Grade:
    """Judge an answer that should hold a program: 1 when it passes every test, else 0 with the first failure.

    Raises:
        Unscorable: the problem's tests are absent or do not run.
        GradingUnavailable: no verdict could be had for reasons that are not the program's.
    """
    tests = check_tests(problem)
    program = find_program(answer, tests.entry_point)
    if program is None:
        outcome = Outcome.TRUNCATED if truncated else Outcome.NO_ANSWER
        return Grade(0.0, outcome, "the answer holds no Python program", runner.name)
    failure = unreadable(program) or _first_failure(problem.key, tests, program, runner)
    if failure is None:
        return Grade(1.0, Outcome.CORRECT, decided_by=runner.name)
    total = len(tests.public) + len(tests.hidden)
    where = f"case {failure.number} of {total}: " if failure.number else ""
    return Grade(0.0, failure.outcome, cut(where + failure.what, 500), runner.name)


def check_tests(problem: Problem) -> ProgramTests:
    """Return the problem's tests.

    Raises:
        Unscorable: there are none, or they cannot be read. A problem without tests passes nobody.
    """
    tests = problem.program
    if tests is None:
        raise Unscorable(problem.key, "it has no tests of a program")
    if not math.isfinite(tests.seconds) or tests.seconds <= 0:
        raise Unscorable(problem.key, f"its time limit is {tests.seconds} seconds")
    reason = _why_unfit(tests)
    if reason:
        raise Unscorable(problem.key, reason)
    return tests


def unreadable(program: str) -> Failure | None:
    """Return the failure of a program that is no Python, found without running it."""
    try:
        read_python(program)
    except NotPython as error:
        return Failure(Outcome.CRASH, cut(f"it does not compile: {error}"))
    return None


def unfit_case(case: Case) -> str:
    """Return why a case cannot be put to a function; empty when it can."""
    try:
        if not isinstance(json.loads(case.given), list):
            return "the arguments of a case are no JSON array"
        json.loads(case.wanted)
    except (ValueError, RecursionError):
        return "a case is not JSON"
    return ""


def _first_failure(key: str, tests: ProgramTests, program: str, runner: CodeRunner) -> Failure | None:
    cases = (*tests.public, *tests.hidden)
    match tests.form:
        case ProgramForm.STDIN:
            return stdin.run_cases(tests, program, cases, runner)
        case ProgramForm.FUNCTION:
            return function.run_cases(tests, program, cases, runner)
        case ProgramForm.ASSERTIONS:
            return assertions.run_tests(key, tests, program, runner)
        case ProgramForm.UNITTEST:
            return unit_tests.run_tests(key, tests, program, runner)
        case _:
            assert_never(tests.form)


def _why_unfit(tests: ProgramTests) -> str:
    cases = (*tests.public, *tests.hidden)
    calls = tests.form in (ProgramForm.FUNCTION, ProgramForm.ASSERTIONS)
    if calls and not str(tests.entry_point or "").isidentifier():
        return f"its entry point {tests.entry_point!r} is no name of a function"
    if tests.form in (ProgramForm.STDIN, ProgramForm.FUNCTION) and not cases:
        return "it has no test cases"
    if tests.form is ProgramForm.FUNCTION:
        return next((reason for reason in map(unfit_case, cases) if reason), "")
    return "" if tests.form is ProgramForm.STDIN else _why_unfit_source(tests)


def _why_unfit_source(tests: ProgramTests) -> str:
    try:
        tree = read_python(tests.source)
        read_python(tests.prelude)
    except NotPython as error:
        return f"its tests are no Python: {error}"
    if tests.form is ProgramForm.UNITTEST:
        return "" if unit_tests.test_names(tree) else "its source holds no test"
    return "" if any(isinstance(node, ast.Assert) for node in ast.walk(tree)) else "its source asserts nothing"
