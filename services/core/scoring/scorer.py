"""Judging a final answer: a grade, or Unscorable when the reference is no good."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from services.core.errors import PrerequisiteMissing, Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.exact import normalise
from services.core.scoring.grade import Grade, Outcome, graded
from services.core.scoring.literal import literal_value
from services.core.scoring.numeric import parse_number
from services.core.scoring.ports import CodeRunner, Equivalence
from services.core.scoring.program.grading import check_tests, grade_program


@dataclass(frozen=True)
class Graders:
    """What judges beyond plain comparisons; None where this process has no such thing."""

    equivalence: Equivalence | None = None
    programs: CodeRunner | None = None


def grade(
    problem: Problem, answer: str | None, answered_by: str | None, graders: Graders, *, truncated: bool = False
) -> Grade:
    """Judge a final answer.

    Args:
        problem: the question with its reference.
        answer: the final answer; None, no answer, is worth 0.
        answered_by: the campaign's name of the model that gave it; what recorded scores are looked up by.
        graders: what judges mathematics and programs.
        truncated: whether the reply with the answer was cut off at its limit of tokens.

    Raises:
        Unscorable: the reference is broken, or there is no recorded score of that model. Never a reward of 0.
        GradingUnavailable: no verdict could be had for reasons that are not the answer's.
        PrerequisiteMissing: ``graders`` lack what the problem needs.
    """
    check_reference(problem)
    if answer is None:
        return Grade(0.0, Outcome.TRUNCATED if truncated else Outcome.NO_ANSWER)
    match problem.scorer:
        case ScorerKind.RECORDED:
            return graded(_recorded(problem, answered_by))
        case ScorerKind.PROGRAM:
            return grade_program(problem, answer, _runner(graders), truncated=truncated)
        case ScorerKind.MATHEMATICS | ScorerKind.CHOICE | ScorerKind.RULES | ScorerKind.JUDGE:
            raise Unscorable(problem.key, f"no scorer {problem.scorer}")
        case _:
            return graded(float(agree(problem.scorer, problem.answer, answer)))


def agree(scorer: ScorerKind, a: str | None, b: str | None) -> bool:
    """Tell whether two answers are the same under a scorer. No answer agrees with nothing, not even with none."""
    if a is None or b is None:
        return False
    match scorer:
        case ScorerKind.EXACT:
            return normalise(a) == normalise(b)
        case ScorerKind.NUMERIC:
            return _same_number(a, b)
        case ScorerKind.LITERAL:
            return literal_value(a) == literal_value(b)
        case ScorerKind.RECORDED:
            return bool(a.strip()) and normalise(a) == normalise(b)
        case ScorerKind.MATHEMATICS | ScorerKind.CHOICE | ScorerKind.RULES | ScorerKind.PROGRAM | ScorerKind.JUDGE:
            return normalise(a) == normalise(b)
        case _:
            assert_never(scorer)


def check_reference(problem: Problem) -> None:
    """Raise Unscorable unless the problem's reference is fit to judge answers by."""
    if problem.scorer is ScorerKind.RECORDED:
        if not problem.scores:
            raise Unscorable(problem.key, "it has no recorded scores")
        return
    if problem.scorer is ScorerKind.PROGRAM:
        check_tests(problem)
        return
    if problem.answer is None or not problem.answer.strip():
        raise Unscorable(problem.key, "its reference answer is empty")
    if problem.scorer is ScorerKind.NUMERIC and parse_number(problem.answer) is None:
        raise Unscorable(problem.key, f"its reference answer {problem.answer!r} is not a number")


def _runner(graders: Graders) -> CodeRunner:
    if graders.programs is None:
        raise PrerequisiteMissing("nothing here may run programs", "see what `manage.py sandbox check` finds")
    return graders.programs


def _same_number(a: str, b: str) -> bool:
    left, right = parse_number(a), parse_number(b)
    if left is None or right is None:
        return left is right and normalise(a) == normalise(b)
    return left == right


def _recorded(problem: Problem, answered_by: str | None) -> float:
    if answered_by is None or answered_by not in problem.scores:
        raise Unscorable(problem.key, f"it has no recorded score of {answered_by!r}")
    value = problem.scores[answered_by]
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise Unscorable(problem.key, f"the recorded score of {answered_by!r} is {value}, not between 0 and 1")
    return float(value)
