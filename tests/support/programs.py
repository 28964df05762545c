"""Small problems that want a program, one for each form of tests."""

from __future__ import annotations

from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind

CASES = (Case("[2]", "4"), Case("[3]", "6"), Case("[-1]", "-2"))
CHECK = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate(3) == 6
    assert candidate(-1) == -2
"""
TEST_CASE = """
import unittest

class TestCases(unittest.TestCase):
    def test_negative(self):
        self.assertEqual(double(-1), -2)

    def test_positive(self):
        self.assertEqual(double(2), 4)

    def test_three(self):
        self.assertEqual(double(3), 6)
"""


def wanting(tests: ProgramTests, key: str = "p/1") -> Problem:
    return Problem(key, "programs", "Double a number.", ScorerKind.PROGRAM, program=tests)


def by_function(*cases: Case, entry_point: str = "double", prelude: str = "", seconds: float = 6.0) -> Problem:
    given = cases or CASES
    return wanting(
        ProgramTests(ProgramForm.FUNCTION, entry_point, given[:1], given[1:], prelude=prelude, seconds=seconds)
    )


def by_stdin(*cases: Case, seconds: float = 6.0) -> Problem:
    given = cases or (Case("2\n", "4\n"), Case("3\n", "6\n"), Case("-1\n", "-2\n"))
    return wanting(ProgramTests(ProgramForm.STDIN, None, given[:1], given[1:], seconds=seconds))


def by_assertions(source: str = CHECK, entry_point: str = "double", prelude: str = "", seconds: float = 6.0) -> Problem:
    return wanting(ProgramTests(ProgramForm.ASSERTIONS, entry_point, source=source, prelude=prelude, seconds=seconds))


def by_test_case(source: str = TEST_CASE, entry_point: str = "double", seconds: float = 6.0) -> Problem:
    return wanting(ProgramTests(ProgramForm.UNITTEST, entry_point, source=source, seconds=seconds))
