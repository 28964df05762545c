"""Judging a final answer: a grade, or Unscorable when the reference is no good."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import assert_never

from services.core.errors import PrerequisiteMissing, Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.choice import choices_agree, grade_choice, reference_letter
from services.core.scoring.exact import normalise
from services.core.scoring.grade import Grade, Outcome, graded
from services.core.scoring.judge import Judge, rate
from services.core.scoring.literal import literal_value
from services.core.scoring.mathematics import grade_mathematics, mathematics_agree, readable
from services.core.scoring.numeric import parse_number
from services.core.scoring.ports import CodeRunner, Equivalence
from services.core.scoring.program.grading import check_tests, grade_program
from services.core.scoring.rules import grade_rules, rules_agree


@dataclass(frozen=True)
class Graders:
    """What judges beyond plain comparisons; None where this process has no such thing."""

    equivalence: Equivalence | None = None
    programs: CodeRunner | None = None
    judge: Judge | None = None


def grade(
    problem: Problem, answer: str | None, answered_by: str | None, graders: Graders, *, truncated: bool = False
) -> Grade:
    """Judge a final answer.

    Args:
        problem: the question with its reference.
        answer: the final answer; None, no answer, is worth 0.
        answered_by: the campaign's name of the model that gave it; what recorded scores are looked up by.
        graders: what judges mathematics, programs and free texts.
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
        case ScorerKind.JUDGE:
            if graders.judge is None:
                raise PrerequisiteMissing(f"problem {problem.key} needs a judge", "name one in `scoring.judge`")
            return rate(problem, answer, graders.judge)
        case ScorerKind.PROGRAM:
            return grade_program(problem, answer, _runner(graders), truncated=truncated)
        case ScorerKind.MATHEMATICS:
            return _cut_off(truncated, grade_mathematics(problem.answer or "", answer, graders.equivalence))
        case ScorerKind.CHOICE:
            return _cut_off(truncated, grade_choice(problem.answer or "", answer, problem.choices))
        case ScorerKind.RULES:
            return _cut_off(truncated, grade_rules(problem.answer or "", answer))
        case _:
            return graded(float(agree(problem.scorer, problem.answer, answer)))


def agree(scorer: ScorerKind, a: str | None, b: str | None) -> bool:
    """Tell whether two answers are the same under a scorer. No answer agrees with nothing, not even with none.

    Mathematics that only a symbolic comparison could tell apart counts as different: nothing outside is asked.
    """
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
        case ScorerKind.MATHEMATICS:
            return mathematics_agree(a, b)
        case ScorerKind.CHOICE:
            return choices_agree(a, b)
        case ScorerKind.RULES:
            return rules_agree(a, b)
        case ScorerKind.PROGRAM | ScorerKind.JUDGE:
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
    if problem.scorer is ScorerKind.JUDGE and problem.answer is None:
        return  # a judge may do without
    if problem.answer is None or not problem.answer.strip():
        raise Unscorable(problem.key, "its reference answer is empty")
    if problem.scorer is ScorerKind.NUMERIC and parse_number(problem.answer) is None:
        raise Unscorable(problem.key, f"its reference answer {problem.answer!r} is not a number")
    if problem.scorer is ScorerKind.MATHEMATICS and not readable(problem.answer):
        raise Unscorable(problem.key, f"its reference answer {problem.answer[:80]!r} is not a mathematical expression")
    if problem.scorer is ScorerKind.CHOICE:
        _check_choice(problem)


def _cut_off(truncated: bool, found: Grade) -> Grade:
    """Return the grade, with an answer that cannot be found in a reply that was cut off as just that."""
    return replace(found, outcome=Outcome.TRUNCATED) if truncated and found.outcome is Outcome.NO_ANSWER else found


def _check_choice(problem: Problem) -> None:
    letter = reference_letter(problem.answer or "")
    if not 2 <= len(problem.choices) <= len(ascii_uppercase):
        raise Unscorable(problem.key, f"it has {len(problem.choices)} options, wanted 2 to {len(ascii_uppercase)}")
    letters = ascii_uppercase[: len(problem.choices)]
    if letter is None or letter not in letters:
        raise Unscorable(problem.key, f"its reference answer {problem.answer!r} is none of the letters {letters}")


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
