"""Comparing outputs and values, and problems whose tests can judge nobody."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from services.core.errors import GradingUnavailable, PrerequisiteMissing, Unscorable
from services.core.problem import Case, ProgramForm, ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import Ending, Execution, Job
from services.core.scoring.program.function import same_value
from services.core.scoring.program.public import check_public
from services.core.scoring.program.stdin import same_output
from services.core.scoring.scorer import Graders, check_reference, grade
from tests.support.programs import by_assertions, by_function, by_stdin, by_test_case, wanting


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("1 2\n", "1 2", True),
        ("1 2\n3", "1 2  \n3\n\n", True),
        ("a\nb", "a\r\nb\r\n", True),
        ("0.5", "0.50", True),
        ("1 2", "1.0   2e0", True),
        ("10", "1e1", True),
        ("0.3", "0.30000000000000004", False),
        ("1", "2", False),
        ("1\n2", "1 2", False),
        ("1", "1\n\n1", False),
        ("YES", "Yes", False),
        ("nan", "nan", True),
        ("1 nan", "1  nan", False),
        ("1 x", "1  x", False),
        ("1", "sNaN", False),
        ("1", "", False),
        ("", "\n", True),
        ("1", "1e999999999999999999", False),
    ],
)
def test_outputs_are_compared_by_lines_then_by_numbers(wanted: str, got: str, same: bool) -> None:
    assert same_output(wanted, got) is same


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        (1, 1, True),
        (1.0, 1, True),
        (True, 1, True),
        ([1, [2]], [1, [2]], True),
        ([1, 2], [1, 2, 3], False),
        (0.3, 0.1 + 0.2, True),
        (0.3, 0.3001, False),
        (1, 1.0000000001, False),
        ("a", "a", True),
        ("1", 1, False),
        (None, None, True),
        (None, 0, False),
        ({"a": [1.0]}, {"a": [1.0]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (math.nan, math.nan, False),
        (1.0, math.nan, False),
        (math.inf, math.inf, True),
    ],
)
def test_values_are_compared_as_json_has_them(wanted: Any, got: Any, same: bool) -> None:
    assert same_value(wanted, got) is same


UNFIT = {
    "no cases": ProgramTests(ProgramForm.STDIN),
    "no cases to call": ProgramTests(ProgramForm.FUNCTION, "f"),
    "no entry point": ProgramTests(ProgramForm.FUNCTION, None, (Case("[1]", "1"),)),
    "odd entry point": ProgramTests(ProgramForm.ASSERTIONS, "f()", source="assert f() == 1"),
    "arguments that are no array": ProgramTests(ProgramForm.FUNCTION, "f", (Case("1", "1"),)),
    "arguments that are no JSON": ProgramTests(ProgramForm.FUNCTION, "f", (Case("[1", "1"),)),
    "a hidden case that is no JSON": ProgramTests(ProgramForm.FUNCTION, "f", (), (Case("[1]", "one"),)),
    "no source": ProgramTests(ProgramForm.ASSERTIONS, "f"),
    "a source without assertions": ProgramTests(ProgramForm.ASSERTIONS, "f", source="f(1)"),
    "a source that is no Python": ProgramTests(ProgramForm.ASSERTIONS, "f", source="assert f(1) =="),
    "a prelude that is no Python": ProgramTests(ProgramForm.ASSERTIONS, "f", source="assert f(1)", prelude="import"),
    "no test": ProgramTests(ProgramForm.UNITTEST, "f", source="import unittest\nclass T(unittest.TestCase): pass"),
    "no test case": ProgramTests(ProgramForm.UNITTEST, "f", source="def test_f(): assert f(1) == 1"),
    "no time": ProgramTests(ProgramForm.STDIN, None, (Case("", ""),), seconds=0.0),
    "no number of seconds": ProgramTests(ProgramForm.STDIN, None, (Case("", ""),), seconds=math.nan),
}


@pytest.mark.parametrize("name", UNFIT)
def test_tests_that_judge_nobody_are_unscorable(name: str) -> None:
    with pytest.raises(Unscorable):
        check_reference(wanting(UNFIT[name]))


def test_a_problem_without_tests_is_unscorable() -> None:
    with pytest.raises(Unscorable, match="no tests"):
        check_reference(wanting(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", [by_stdin(), by_function(), by_assertions(), by_test_case()])
def test_sound_tests_pass_the_check(problem: Any) -> None:
    check_reference(problem)


class Broken:
    """A sandbox in which nothing begins."""

    name = "broken"

    def __init__(self, stderr: bytes = b"bwrap: no permission") -> None:
        self.ended = Execution(Ending.EXITED, 1, b"", stderr, 0.0, 0.0)

    def run(self, job: Job) -> Execution:
        return self.ended

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        return self.ended, self.ended


PROGRAM = "def double(x):\n    return 2 * x\n"


@pytest.mark.parametrize("problem", [by_stdin(), by_function(), by_assertions(), by_test_case()])
def test_what_never_began_is_no_grade(problem: Any) -> None:
    with pytest.raises(GradingUnavailable, match="no permission"):
        grade(problem, PROGRAM, None, Graders(programs=Broken()))
    with pytest.raises(PrerequisiteMissing, match="sandbox"):
        grade(problem, PROGRAM, None, Graders())


@pytest.mark.parametrize("problem", [by_stdin(), by_function(), by_assertions(), by_test_case()])
def test_what_began_and_said_nothing_is_worth_nothing(problem: Any) -> None:
    result = grade(problem, PROGRAM, None, Graders(programs=Broken(b"ready\n")))
    assert (result.reward, result.outcome) == (0.0, Outcome.CRASH)


@pytest.mark.parametrize("problem", [by_stdin(), by_function(), by_assertions(), by_test_case()])
def test_no_program_and_no_python_are_found_without_running(problem: Any) -> None:
    broken = Graders(programs=Broken())
    none = grade(problem, "I do not know.", None, broken)
    assert (none.reward, none.outcome, none.decided_by) == (0.0, Outcome.NO_ANSWER, "broken")
    assert grade(problem, "I do not", None, broken, truncated=True).outcome is Outcome.TRUNCATED
    wrong = grade(problem, "```python\nx = 1\ndef double(x:\n```", None, broken)
    assert (wrong.reward, wrong.outcome) == (0.0, Outcome.CRASH)
    assert "line 2" in wrong.detail


class Scripted:
    """A runner in which each run ends as told after answering some of its cases."""

    name = "scripted"

    def __init__(self, *script: tuple[Ending, int]) -> None:
        self.script = iter(script)
        self.asked: list[int] = []

    def run(self, job: Job) -> Execution:
        cases = [json.loads(given)[0] for given in json.loads(job.stdin)["cases"]]
        self.asked.append(len(cases))
        ending, answered = next(self.script)
        replies = [json.dumps({"case": n, "value": 2 * x}) for n, x in enumerate(cases[:answered])]
        return Execution(ending, 0, "".join(f"{one}\n" for one in replies).encode() + b'{"ca', b"ready\n", 1.0, 1.0)

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        raise NotImplementedError


def test_a_limit_counts_for_each_case_and_not_for_all() -> None:
    one_each = Scripted((Ending.CPU_TIME, 1), (Ending.WALL_TIME, 1), (Ending.EXITED, 1))
    assert grade(by_function(), PROGRAM, None, Graders(programs=one_each)).reward == 1.0
    assert one_each.asked == [3, 2, 1]
    stuck = Scripted((Ending.CPU_TIME, 1), (Ending.CPU_TIME, 0))
    result = grade(by_function(), PROGRAM, None, Graders(programs=stuck))
    assert (result.reward, result.outcome) == (0.0, Outcome.TIMEOUT)
    assert result.detail == "case 2 of 3: it used up its CPU time"
    left = Scripted((Ending.EXITED, 2))
    result = grade(by_function(), PROGRAM, None, Graders(programs=left))
    assert (result.outcome, result.detail) == (Outcome.CRASH, "case 3 of 3: it ended with status 0 before it answered")


def test_large_cases_go_to_runs_of_their_own() -> None:
    large = [Case(f"[{number}, {' ' * 1_500_000}0]", str(2 * number)) for number in range(3)]
    runs = Scripted((Ending.EXITED, 1), (Ending.EXITED, 1), (Ending.EXITED, 1))
    assert grade(by_function(*large), PROGRAM, None, Graders(programs=runs)).reward == 1.0
    assert runs.asked == [1, 1, 1]


def test_without_public_cases_there_is_nothing_to_check() -> None:
    assert check_public(by_assertions(), PROGRAM, Broken()) is None
    assert check_public(wanting(None), PROGRAM, Broken()) is None  # type: ignore[arg-type]
