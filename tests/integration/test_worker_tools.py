"""The worker's real tools: symbolic mathematics and the sandbox, opened by the first answer that needs them."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind
from services.core.protocol.evidence import examiner
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.scorer import Graders, grade
from worker.grading import graders, require

FRACTION = Problem("half", "maths", "What is a half?", ScorerKind.MATHEMATICS, r"\frac{1}{2}")
DOUBLE = Problem(
    "double", "code", "Double it.", ScorerKind.PROGRAM,
    program=ProgramTests(ProgramForm.STDIN, public=(Case("2", "4"),), hidden=(Case("3", "6"),)),
)  # fmt: skip


def test_both_kinds_of_answers_are_graded_and_a_program_is_evidence_first() -> None:
    with ExitStack() as closing:
        judging = graders(closing)
        try:
            require(DOUBLE, judging)
        except PrerequisiteMissing as error:
            pytest.skip(str(error))
        require(FRACTION, judging)
        symbolic = grade(FRACTION, "x^2/(2x^2)", "ada", judging)
        assert symbolic.outcome is Outcome.CORRECT
        assert symbolic.decided_by.startswith("math-verify")
        assert grade(FRACTION, "0.6", "ada", judging).outcome is Outcome.WRONG
        found: list[Grade] = []
        threads = [
            threading.Thread(target=lambda: found.append(grade(DOUBLE, "print(2 * int(input()))", "ada", judging)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [(each.reward, each.decided_by) for each in found] == [(1.0, judging.programs.name)] * 4  # type: ignore[union-attr]
        cubed = Item(1, 0, Role.WORKER, RoleSource.POLICY, "", "", "print(int(input()) ** 3)")
        evidence = examiner(DOUBLE, judging.programs)(cubed)
        assert evidence is not None
        assert evidence.refutes
        assert 'got: "8"' in evidence.text
    with pytest.raises(GradingUnavailable, match="stopping"):
        require(DOUBLE, judging)


@pytest.mark.parametrize("problem", [FRACTION, DOUBLE])
def test_what_cannot_be_judged_here_is_said_before_anything_is_paid(problem: Problem) -> None:
    with pytest.raises(PrerequisiteMissing, match="doctor"):
        require(problem, Graders())
    require(replace(FRACTION, scorer=ScorerKind.EXACT), Graders())
