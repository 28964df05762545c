"""Right programs pass in every form, whatever they look like; wrong ones say where; public cases alone may be shown."""

from __future__ import annotations

import pytest

from services.core.errors import Unscorable
from services.core.problem import Case, Problem
from services.core.scoring.grade import Outcome
from services.core.scoring.program.public import PublicCheck, check_public
from services.core.scoring.scorer import Graders, grade
from tests.support.plain_runner import PlainRunner
from tests.support.programs import by_assertions, by_function, by_stdin, by_test_case

RUNNER = PlainRunner()
DOUBLE = "def double(x):\n    return 2 * x\n"
IN_CLASS = "class Solution:\n    def double(self, x: int) -> int:\n        return 2 * x\n"
RESULTS = """
import unittest

class TestBase(unittest.TestCase):
    def test_shared(self):
        self.assertEqual(double(1), 2)

class TestCases(TestBase):
    def test_patched(self):
        with unittest.mock.patch(__name__ + ".helper", return_value=7):
            self.assertEqual(double(1), 7)
"""


def reward(problem: Problem, answer: str) -> float:
    result = grade(problem, answer, None, Graders(programs=RUNNER))
    assert (result.outcome is Outcome.CORRECT) == (result.reward == 1.0)
    assert bool(result.detail) == (result.reward == 0.0)
    return result.reward


@pytest.mark.parametrize("make", [by_function, by_assertions, by_test_case])
@pytest.mark.parametrize(
    "answer",
    [
        DOUBLE,
        f"Here:\n```python\n{DOUBLE}```\nDone.",
        "from __future__ import annotations\nimport math\nprint('hello')\n" + DOUBLE + "print(double(1))\n",
        DOUBLE + "if __name__ == '__main__':\n    raise SystemExit(double(int(input())))\n",
        "import functools\n@functools.lru_cache\n" + DOUBLE,
        "from dataclasses import dataclass\n@dataclass\nclass D:\n    n: int\n" + DOUBLE.replace("2 * x", "D(2 * x).n"),
    ],
)
def test_a_right_function_passes(make: type, answer: str) -> None:
    assert reward(make(), answer) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "print(2 * int(input()))",
        "import sys\nfor line in sys.stdin:\n    print('', int(line) * 2.0, '')\n",
        "```python\ndef main():\n    print(2 * int(input()))\n\nif __name__ == '__main__':\n    main()\n```",
        "import sys\nprint(2 * int(sys.stdin.readline()))\nsys.exit(0)",
    ],
)
def test_a_right_program_passes(answer: str) -> None:
    assert reward(by_stdin(), answer) == 1.0


def test_a_method_gets_a_fresh_object_for_each_case() -> None:
    assert reward(by_function(), IN_CLASS) == 1.0
    counting = (
        "class Solution:\n    n = 0\n    def double(self, x):\n        self.n += 1\n        return 2 * x * self.n\n"
    )
    assert reward(by_function(), counting) == 1.0
    assert reward(by_function(), IN_CLASS + DOUBLE.replace("2 *", "3 *")) == 1.0


def test_a_prelude_stands_before_the_answer() -> None:
    answer = "class Solution:\n    def first(self, names: List[str]) -> Optional[str]:\n        return names[0]\n"
    problem = by_function(Case('[["a", "b"]]', '"a"'), entry_point="first", prelude="from typing import *\n")
    assert reward(problem, answer) == 1.0
    assert reward(problem, "from __future__ import annotations\n" + answer) == 1.0
    helped = by_assertions("assert double(2) == plus(2, 2)", prelude="def plus(a, b):\n    return a + b\n")
    assert reward(helped, "def double(x):\n    return plus(x, x)") == 1.0
    assert reward(helped, "def plus(a, b):\n    return 5\ndef double(x):\n    return 5") == 0.0


def test_answers_and_arguments_of_many_kinds_travel() -> None:
    source = """
def check(candidate):
    for value in [None, True, 1, 10**400, 1.5, "é\\ud800", b"x", [1, [2]], (1, (2,)), {1, 2}, {(1,): {"a": None}}, 2j]:
        assert candidate(value) == value
        assert type(candidate(value)) is type(value)
    assert list(candidate(iter([1, 2]))) == [1, 2]
    assert candidate(x=3) == 3
    assert candidate(int) is int
"""
    assert reward(by_assertions(source, "same"), "def same(x):\n    return x") == 1.0


def test_errors_of_the_program_reach_the_tests_that_expect_them() -> None:
    source = """
def check(candidate):
    try:
        candidate(-1)
    except ValueError as error:
        assert str(error) == "negative"
    else:
        assert False
"""
    problem = by_assertions(source, "root")
    own = "class Negative(ValueError): pass\ndef root(x):\n    raise Negative('negative')"
    assert reward(problem, "def root(x):\n    raise ValueError('negative')") == 1.0
    assert reward(problem, own) == 1.0
    assert reward(problem, "def root(x):\n    raise KeyError('negative')") == 0.0
    assert reward(problem, "def root(x):\n    raise SystemExit('negative')") == 0.0
    swallowing = by_assertions("try:\n    double(1)\nexcept BaseException:\n    pass\nassert True")
    assert reward(swallowing, "import os\ndef double(x): os._exit(0)") == 0.0


def test_objects_of_the_program_can_be_held_but_not_asked_whether_they_are_equal() -> None:
    tree = (
        "class Node:\n    def __init__(self, v):\n        self.v, self.left = v, None\n    __eq__ = lambda s, o: True\n"
    )
    source = "root = Node(1)\nroot.left = Node(2)\nassert depth(root) == 2\nassert root.left.v == 2\n"
    program = tree + "def depth(n):\n    return 1 + depth(n.left) if n else 0\n"
    assert reward(by_assertions(source, "depth"), program) == 1.0
    assert reward(by_assertions(source + "assert root == 5\n", "depth"), program) == 0.0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package\nassert double(1) == 2", "No module named 'no_such_package'"),
        ("assert double(lambda: 1) == 2", "cannot be sent"),
        ("assert 1 == 1", "no test calls it"),
    ],
)
def test_tests_that_do_not_run_are_no_verdict(source: str, reason: str) -> None:
    with pytest.raises(Unscorable, match=reason):
        reward(by_assertions(source), DOUBLE)


def test_a_test_case_that_lacks_a_package_is_no_verdict_unless_the_program_took_it() -> None:
    lacking = by_test_case("import no_such_package\n" + RESULTS)
    with pytest.raises(Unscorable, match="No module named 'no_such_package'"):
        reward(lacking, DOUBLE)
    assert reward(by_test_case("import wave\n" + RESULTS), "import sys\nsys.modules['wave'] = None\n" + DOUBLE) == 0.0


def test_a_test_case_patches_the_module_of_the_program_and_inherits() -> None:
    program = "def helper(x):\n    return 2 * x\ndef double(x):\n    return helper(x)\n"
    assert reward(by_test_case(RESULTS), program) == 1.0
    assert reward(by_test_case(RESULTS), DOUBLE + "helper = None\n") == 0.0
    skipped = RESULTS.replace("    def test_patched", "    @unittest.skip('later')\n    def test_patched")
    assert reward(by_test_case(skipped), program) == 0.0


def test_a_failed_case_is_named_but_not_what_it_wants() -> None:
    result = grade(by_function(), "def double(x):\n    return abs(2 * x)", None, Graders(programs=RUNNER))
    assert result.detail == "case 3 of 3: it returned another value"
    result = grade(by_assertions(), "def double(x):\n    return abs(2 * x)", None, Graders(programs=RUNNER))
    assert result.detail == "it is wrong at assertion 3 of 3"
    result = grade(by_test_case(), "def double(x):\n    return abs(2 * x)", None, Graders(programs=RUNNER))
    assert result.detail == "it is wrong in test 1 of 3"


def test_public_cases_alone_are_run_and_told() -> None:
    right = check_public(by_function(), DOUBLE, RUNNER)
    assert right == PublicCheck(1, 1, Outcome.CORRECT)
    passes_public = check_public(by_function(), "def double(x): return 4", RUNNER)
    assert passes_public == PublicCheck(1, 1, Outcome.CORRECT)
    wrong = check_public(by_function(), "def double(x): return [x]", RUNNER)
    assert wrong == PublicCheck(1, 0, Outcome.WRONG, "it returned another value", Case("[2]", "4"), "[2]")
    printed = check_public(by_stdin(), "print('no')", RUNNER)
    assert printed == PublicCheck(1, 0, Outcome.WRONG, "it printed something else", Case("2\n", "4\n"), "no\n")
    absent = check_public(by_function(), "I cannot.", RUNNER)
    assert absent == PublicCheck(1, 0, Outcome.NO_ANSWER, "the answer holds no Python program")
    broken = check_public(by_function(), "x = 1/0", RUNNER)
    assert broken is not None
    assert (broken.passed, broken.outcome, broken.failed) == (0, Outcome.CRASH, None)
