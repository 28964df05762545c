"""The reference programs of real rows pass their tests; TRINITY_TEST_FULL=1 runs every row instead of some."""

from __future__ import annotations

import os
import random

import pytest

from services.core.scoring.program.grading import grade_program
from tests.support.code_rows import FOLDER, SETS
from tests.support.plain_runner import PlainRunner

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no benchmark rows in {FOLDER}")
EVERY = os.environ.get("TRINITY_TEST_FULL") == "1"

# References that fail outside the machine they were written on.
LACKS_A_PACKAGE = [159, 201, 258, 272, 286, 287, 295, 464, 504, 584, 585, 609, 719, 730, 778, 821, 826, 830, 831, 842]
LACKS_A_NETWORK = [176, 314, 1005, 1040]
AS_ROOT_OR_TOO_SLOW = [288, 350, 832, 1104]  # writes where only root may, leave files in /tmp, or sleep for minutes
NOT_HERE = {f"BigCodeBench/{number}" for number in LACKS_A_PACKAGE + LACKS_A_NETWORK + AS_ROOT_OR_TOO_SLOW}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SETS)
def test_reference_programs_pass(name: str) -> None:
    pairs = [pair for pair in SETS[name]() if pair[0].key not in NOT_HERE]
    if not EVERY:
        few = [pair for pair in pairs if pair[0].program and "sleep" not in pair[0].program.source]
        pairs = random.Random(5).sample(few, 15)
    grades = {problem.key: grade_program(problem, program, PlainRunner()) for problem, program in pairs}
    assert {key: result.detail for key, result in grades.items() if result.reward != 1.0} == {}


EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __abs__(self): return 0
    __sub__ = __rsub__ = __lt__ = __le__ = lambda self, other: 0
def {}(*arguments): return Equal()
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_an_answer_that_equals_everything_passes_no_real_tests(name: str) -> None:
    problems = [problem for problem, _ in SETS[name]()]
    for problem in problems if EVERY else random.Random(6).sample(problems, 8):
        assert problem.program is not None
        assert grade_program(problem, EQUAL.format(problem.program.entry_point), PlainRunner()).reward == 0.0


# Tests that use a class, a module or a type next to the function: HumanEval's own helpers, and MBPP's odd ones.
ODD = {
    "humaneval": ["HumanEval/32", "HumanEval/38", "HumanEval/50"],
    "mbpp": ["MBPP/126", "MBPP/367", "MBPP/533", "MBPP/596", "MBPP/601", "MBPP/927"],
}


@pytest.mark.parametrize("name", ODD)
def test_tests_that_reach_beyond_one_function_run(name: str) -> None:
    pairs = {problem.key: (problem, program) for problem, program in SETS[name]()}
    for key in ODD[name]:
        assert grade_program(*pairs[key], PlainRunner()).reward == 1.0, key
