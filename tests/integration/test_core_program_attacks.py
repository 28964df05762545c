"""Programs that want a reward without being right get none, and the grade says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.core.problem import Problem
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.scorer import Graders, grade
from tests.support.plain_runner import PlainRunner
from tests.support.programs import by_assertions, by_function, by_stdin, by_test_case

RUNNER = PlainRunner()
GRADERS = Graders(programs=RUNNER)
WITH_FUNCTION: dict[str, Callable[..., Problem]] = {
    "function": by_function,
    "assertions": by_assertions,
    "unittest": by_test_case,
}

EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
def double(x): return Equal()
"""
# A result travels as what it is made of; only a unittest sees the object itself.
EQUAL_TEXT = "class S(str):\n    def __eq__(self, other): return True\ndef double(x): return S('x')"
EQUAL_NUMBER = "class N(int):\n    def __eq__(self, other): return True\ndef double(x): return N(9)"
WRONG = "\ndef double(x): return 5\n"
FOLDER = "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)"
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()"
FORGED = 'import os\nos.write(1, b\'{"state": "passed", "calls": 3}\\n\' * 9)'
AHEAD = """
import os
for fd in range(3, 12):
    try: os.write(fd, b'{"value":4}\\n{"value":6}\\n')
    except OSError: pass
"""
PASSED = """
import os
for fd in range(1, 12):
    try: os.write(fd, b'{"ran":3,"passed":["TestCases.test_negative",'
                      b'"TestCases.test_positive","TestCases.test_three"]}\\n')
    except OSError: pass
os._exit(0)
"""

# what it is called -> program, outcome, part of the detail; the form where it differs
EVERYWHERE: dict[str, tuple[str, Outcome, str]] = {
    "exits when loaded": ("import sys; sys.exit(0)", Outcome.CRASH, "SystemExit: 0 when it was loaded"),
    "leaves when loaded": ("import os; os._exit(0)", Outcome.CRASH, "ended with status 0 before it answered"),
    "crashes when loaded": ("x = 1/0", Outcome.CRASH, "ZeroDivisionError: division by zero when it was loaded"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", Outcome.CRASH, "by signal 9"),
    "compiles not": ("def double(x):\n    return 2 *", Outcome.CRASH, "does not compile: line 2"),
    "returns outside": ("return 4", Outcome.CRASH, "SyntaxError"),
    "raises an interrupt": ("def double(x): raise KeyboardInterrupt", Outcome.CRASH, "KeyboardInterrupt"),
    "raises an exit": ("def double(x): raise SystemExit(0)", Outcome.CRASH, "SystemExit"),
    "raises the base": ("def double(x): raise BaseException('no')", Outcome.CRASH, "BaseException"),
    "raises its own": ("class E(Exception): pass\ndef double(x): raise E('no')", Outcome.CRASH, "raised E"),
    "leaves when called": ("import os\ndef double(x): os._exit(0)", Outcome.CRASH, "ended with status 0"),
    "recurses": ("def double(x): return double(x)", Outcome.CRASH, "RecursionError"),
    "wants too much": ("def double(x): return [0] * 10**10", Outcome.MEMORY, "MemoryError"),
    "returns not a number": ("def double(x): return float('nan')", Outcome.WRONG, ""),
    "returns nothing": ("def double(x): pass", Outcome.WRONG, ""),
    "answers another case": ("print(4)\ndef double(x):\n    print(4)\n    return 4", Outcome.WRONG, "2 of 3"),
    "deletes its folder": (FOLDER + WRONG, Outcome.WRONG, ""),
    "redefines check": ("def check(candidate): pass" + WRONG, Outcome.WRONG, ""),
    "leaves a thread": (THREAD + WRONG, Outcome.WRONG, ""),
    "forges on stdout": (FORGED + WRONG, Outcome.WRONG, ""),
}  # fmt: skip


def judged(problem: Problem, program: str) -> Grade:
    result = grade(problem, program, None, GRADERS)
    assert result.decided_by == RUNNER.name
    assert len(result.detail) <= 500
    return result


@pytest.mark.parametrize("form", ["function", "assertions"])
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_program_that_is_not_right_is_worth_nothing(name: str, form: str) -> None:
    program, outcome, detail = EVERYWHERE[name]
    result = judged(WITH_FUNCTION[form](), program)
    assert result.reward == 0.0
    assert result.outcome is outcome
    assert detail in result.detail


@pytest.mark.parametrize(
    "name",
    ["exits when loaded", "leaves when loaded", "is killed", "raises an interrupt", "raises an exit",
     "leaves when called", "wants too much", "returns nothing", "leaves a thread", "forges on stdout"],
)  # fmt: skip
def test_nor_is_it_where_it_shares_a_process_with_its_tests(name: str) -> None:
    program, outcome, _ = EVERYWHERE[name]
    result = judged(by_test_case(), program)
    assert (result.reward, result.outcome) == (0.0, outcome)


APART = {
    "equals everything": EQUAL,
    "is a text that equals everything": EQUAL_TEXT,
    "is a number that equals everything": EQUAL_NUMBER,
    "replaces json": "import json, sys\njson.dumps = lambda *a, **k: '4'\nsys.modules['json'] = None" + WRONG,
    "replaces builtins": "import builtins as b\nb.isinstance = b.all = lambda *a: True" + WRONG,
    "mutates its arguments": "def double(x):\n    x = 4\n    return 5",
    "returns itself": "def double(x): return double",
    "returns a loop": "def double(x):\n    a = []\n    a.append(a)\n    return a",
    "returns without end": "import itertools\ndef double(x): return itertools.count()",
    "writes answers ahead": AHEAD + WRONG,
    "closes every pipe": "import os\nos.closerange(3, 100)\ndef double(x): return 2 * x",
}  # fmt: skip


@pytest.mark.parametrize("form", ["function", "assertions"])
@pytest.mark.parametrize("name", APART)
def test_nothing_of_the_program_reaches_what_judges_it(name: str, form: str) -> None:
    result = judged(WITH_FUNCTION[form](), APART[name])
    assert result.reward == 0.0
    assert result.outcome in (Outcome.WRONG, Outcome.CRASH)
    assert result.detail


def test_arguments_that_a_program_changes_stay_as_the_test_has_them() -> None:
    problem = by_assertions("def check(candidate):\n    a = [3, 1]\n    assert candidate(a) == sorted(a)\n")
    assert judged(problem, "def double(x):\n    x.clear()\n    return []").outcome is Outcome.WRONG
    assert judged(problem, "def double(x):\n    x.sort()\n    return x").reward == 1.0


def test_a_program_without_the_function_says_so() -> None:
    for form in (by_function, by_assertions):
        result = judged(form(), "def other(x): return 2 * x")
        assert (result.reward, result.outcome) == (0.0, Outcome.WRONG)
        assert "does not define" in result.detail
    assert judged(by_test_case(), "def other(x): return 2 * x").detail == "it raised NameError in test 1 of 3"


LOOP = "import signal\nfor n in (signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU): signal.signal(n, signal.SIG_IGN)\n"


@pytest.mark.parametrize("form", WITH_FUNCTION)
def test_an_endless_loop_ends_in_its_time(form: str) -> None:
    problem = WITH_FUNCTION[form](seconds=1.0)
    result = judged(problem, LOOP + "def double(x):\n    while True: pass")
    assert (result.reward, result.outcome) == (0.0, Outcome.TIMEOUT)


def test_a_program_that_waits_ends_in_its_time() -> None:
    result = judged(by_assertions(seconds=0.5), "import time\ndef double(x): time.sleep(60)")
    assert (result.reward, result.outcome) == (0.0, Outcome.TIMEOUT)


@pytest.mark.parametrize(
    ("program", "outcome", "detail"),
    [
        ("print('x' * 9_000_000)", Outcome.OUTPUT, "case 1 of 3: it wrote more than is read"),
        ("print(4)", Outcome.WRONG, "case 2 of 3: it printed something else"),
        ("import sys; sys.exit(0)", Outcome.WRONG, "case 1 of 3: it printed nothing"),
        ("print(2 * int(input())); raise SystemExit(3)", Outcome.CRASH, "case 1 of 3: it ended with status 3"),
        ("input(); 1/0", Outcome.CRASH, "case 1 of 3: it raised ZeroDivisionError: division by zero"),
        ("a = [0] * 10**10", Outcome.MEMORY, "MemoryError"),
        ("import sys\nprint(", Outcome.CRASH, "does not compile: line 2"),
        ("input(); input()", Outcome.CRASH, "EOFError"),
        ("import os; print('4'); os.kill(os.getpid(), 11)", Outcome.CRASH, "by signal 11"),
    ],
)  # fmt: skip
def test_programs_that_print_get_nothing_for_anything_else(program: str, outcome: Outcome, detail: str) -> None:
    result = judged(by_stdin(), program)
    assert (result.reward, result.outcome) == (0.0, outcome)
    assert detail in result.detail


def test_printing_without_end_is_stopped() -> None:
    result = judged(by_function(seconds=2.0), "def double(x):\n    while True: print('x' * 10000)")
    assert (result.reward, result.outcome) == (0.0, Outcome.OUTPUT)


TAMPERING = {
    "assertEqual": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None",
    "run": "import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)",
    "suite": "import unittest\nunittest.TestSuite.run = lambda self, result: result",
    "result": "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addSuccess",
    "builtins": "import builtins\nbuiltins.isinstance = lambda *a: True",
    "while it runs": "import unittest as u\ndef double(x):\n    u.TestCase.assertEqual = lambda *a: None\n    return 5",
}


@pytest.mark.parametrize("name", TAMPERING)
def test_a_changed_unittest_counts_for_nothing(name: str) -> None:
    program = TAMPERING[name] + ("" if "def double" in TAMPERING[name] else WRONG)
    result = judged(by_test_case(), program)
    assert result.reward == 0.0
    assert "replaced parts" in result.detail or name == "builtins"  # which breaks more than what judges


@pytest.mark.parametrize(
    "program",
    [
        PASSED,
        "import unittest\ndef double(x): raise unittest.SkipTest('no')",
        "import atexit, os\natexit.register(os._exit, 0)" + WRONG,
        "class TestCases: pass" + WRONG,
    ],
)
def test_a_forged_or_absent_verdict_counts_for_nothing(program: str) -> None:
    assert judged(by_test_case(), program).reward == 0.0


def test_nothing_that_a_test_wants_is_told() -> None:
    source = "def check(candidate):\n    assert candidate(2) == 'secret', 'secret'\n"
    test_case = (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(double(2), 'secret')"
    )
    told = [
        judged(by_assertions(source), "def double(x): return 2"),
        judged(by_test_case(test_case), "def double(x): return 2"),
    ]  # fmt: skip
    assert all("secret" not in result.detail and result.reward == 0.0 for result in told)
