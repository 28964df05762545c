"""Programs that read standard input: one run for each case, compared line by line."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from services.core.problem import Case, ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner, Ending, Execution, Job
from services.core.scoring.program.bundle import READY, began
from services.core.scoring.program.jobs import limits
from services.core.scoring.program.verdicts import Failure, cut, gone, over_limit, raised

_SHELL = """\
{ready}exec(compile({prelude!r}, "<prelude>", "exec"), globals())
exec(compile({program!r}, "<program>", "exec"), globals())
"""


def run_cases(tests: ProgramTests, program: str, cases: Sequence[Case], runner: CodeRunner) -> Failure | None:
    """Run a program on cases until one fails; return why, or None when all pass."""
    source = _SHELL.format(ready=READY, prelude=tests.prelude, program=program)
    for number, case in enumerate(cases, 1):
        execution = began(runner.run(Job(source, case.given.encode("utf-8", "replace"), limits(tests))))
        failure = _judge(execution, case, number)
        if failure is not None:
            return failure
    return None


def same_output(wanted: str, got: str) -> bool:
    """Tell whether two outputs are the same as LiveCodeBench has it.

    Blanks around the whole and around each line do not count. Lines that differ must hold the same decimal numbers.
    """
    left, right = (text.strip().split("\n") for text in (wanted, got))
    return len(left) == len(right) and all(map(_same_line, left, right))


def _same_line(wanted: str, got: str) -> bool:
    if wanted.strip() == got.strip():
        return True
    try:
        left, right = ([Decimal(word) for word in line.split()] for line in (wanted, got))
        return left == right
    except InvalidOperation:
        return False


def _judge(execution: Execution, case: Case, number: int) -> Failure | None:
    failure = over_limit(execution, number)
    if failure is not None:
        return failure
    if execution.ending is not Ending.EXITED or execution.status != 0:
        return _crash(execution, number)
    got = execution.stdout.decode("utf-8", "replace")
    if same_output(case.wanted, got):
        return None
    return Failure(
        Outcome.WRONG, "it printed something else" if got.strip() else "it printed nothing", number, cut(got)
    )


def _crash(execution: Execution, number: int) -> Failure:
    """Return the failure of a program that ended by an error; the last line of a traceback says which."""
    lines = execution.stderr.decode("utf-8", "replace").strip().split("\n")
    name, _, message = lines[-1].partition(": ")
    if execution.ending is Ending.EXITED and name.replace(".", "").isidentifier():
        return raised(cut(name, 60), cut(message), number)
    return gone(execution, number)
