"""What may be known of a program before its answer is final: how it does on the examples that its question shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.core.problem import Case, Problem, ProgramForm, ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner
from services.core.scoring.program import function, stdin
from services.core.scoring.program.extraction import find_program
from services.core.scoring.program.grading import unfit_case, unreadable
from services.core.scoring.program.verdicts import Failure


@dataclass(frozen=True)
class PublicCheck:
    """How a program did on the public cases of its problem.

    Attributes:
        total: how many there are.
        passed: how many passed, in order, before the first that failed.
        outcome: CORRECT when all passed, else why not.
        what: a phrase on the failure; empty when there is none.
        failed: the case that failed, None when all passed or the program could not be run on any.
        got: what the program answered to it, cut; None when it gave no answer.
    """

    total: int
    passed: int
    outcome: Outcome
    what: str = ""
    failed: Case | None = None
    got: str | None = None


def check_public(problem: Problem, answer: str, runner: CodeRunner) -> PublicCheck | None:
    """Run the program of an answer on the public cases alone; None when the problem has none that can be run.

    Hidden cases and the source of tests are never touched. Public cases of any form but ``stdin`` are calls of the
    entry point with JSON arguments.

    Raises:
        GradingUnavailable: no verdict could be had for reasons that are not the program's.
    """
    tests = problem.program
    if tests is None:
        return None
    cases = _runnable(tests)
    if not cases:
        return None
    program = find_program(answer, tests.entry_point)
    if program is None:
        return PublicCheck(len(cases), 0, Outcome.NO_ANSWER, "the answer holds no Python program")
    shown = replace(tests, public=cases, hidden=(), source="")
    failure = unreadable(program) or _run(shown, program, runner)
    return _told(cases, failure)


def _runnable(tests: ProgramTests) -> tuple[Case, ...]:
    if tests.form is ProgramForm.STDIN:
        return tests.public
    return tuple(case for case in tests.public if tests.entry_point and not unfit_case(case))


def _run(tests: ProgramTests, program: str, runner: CodeRunner) -> Failure | None:
    run_cases = stdin.run_cases if tests.form is ProgramForm.STDIN else function.run_cases
    return run_cases(tests, program, tests.public, runner)


def _told(cases: tuple[Case, ...], failure: Failure | None) -> PublicCheck:
    if failure is None:
        return PublicCheck(len(cases), len(cases), Outcome.CORRECT)
    if not failure.number:
        return PublicCheck(len(cases), 0, failure.outcome, failure.what)
    failed = cases[failure.number - 1]
    return PublicCheck(len(cases), failure.number - 1, failure.outcome, failure.what, failed, failure.got)
