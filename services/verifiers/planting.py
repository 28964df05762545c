"""Answers known to be right or wrong: planted beside the reference, or those that a campaign's Workers gave."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from services.core import seeds
from services.core.problem import Problem, ScorerKind
from services.core.scoring.numeric import parse_number
from services.core.scoring.scorer import agree
from services.pool.local.near_misses import near_misses
from services.storage.answers import GradedAnswer

RIGHT = "right"
SLIP = "slip"  # wrong, and the last step of the working is a false equation
SILENT = "silent"  # wrong, and nothing in the working gives it away
PLAYED = "played"  # wrong, as a Worker of the campaign had it

WORKED = "Worked through the question step by step."
UNPLANTABLE = frozenset({ScorerKind.RECORDED, ScorerKind.PROGRAM, ScorerKind.JUDGE})


@dataclass(frozen=True)
class Planted:
    """An answer to be judged.

    Attributes:
        problem: what it answers.
        answer: the Worker's final answer.
        ideas: the Worker's working.
        kind: ``right``, or in which way it is wrong.
    """

    problem: Problem
    answer: str
    ideas: str
    kind: str

    @property
    def right(self) -> bool:
        return self.kind == RIGHT


def planted(problems: Sequence[Problem], wanted: int, seed: int) -> list[Planted]:
    """Return a right and a wrong answer to each of at most ``wanted`` problems drawn by the seed.

    Problems without a reference, and those whose reference has no near miss that the scorer tells apart, are passed
    over. Every second wrong answer is a slip, where its working can state one.
    """
    found: list[Planted] = []
    for place in seeds.generator(seed, "verifiers").permutation(len(problems)):
        if len(found) == 2 * wanted:
            break
        found.extend(_pair(problems[place], len(found) // 2 % 2 == 0, seed))
    return found


def played(by_id: Mapping[int, Problem], answers: Sequence[GradedAnswer], wanted: int, seed: int) -> list[Planted]:
    """Return at most ``wanted`` right and as many wrong answers of a campaign's Workers, drawn by the seed."""
    rng = seeds.generator(seed, "verifiers", "played")
    found: list[Planted] = []
    for right in (True, False):
        some = [answer for answer in answers if answer.right is right]
        for place in sorted(rng.permutation(len(some))[:wanted].tolist()):
            answer = some[place]
            kind = RIGHT if right else PLAYED
            found.append(Planted(by_id[answer.problem_id], answer.answer, answer.ideas, kind))
    return found


def _pair(problem: Problem, slip: bool, seed: int) -> Iterator[Planted]:
    if problem.scorer in UNPLANTABLE or problem.answer is None:
        return
    wrong = slips_of(problem)
    if not wrong:
        return
    rng = seeds.generator(seed, "verifiers", problem.key)
    other = wrong[int(rng.integers(len(wrong)))]
    true, false = parse_number(problem.answer), parse_number(other)
    yield Planted(problem, problem.answer, WORKED if true is None else last_step(true, true, rng), RIGHT)
    if true is None or false is None:
        yield Planted(problem, other, WORKED, SILENT)
        return
    ideas = last_step(true if slip else false, false, rng)
    yield Planted(problem, other, ideas, SLIP if slip else SILENT)


def slips_of(problem: Problem) -> list[str]:
    """Return near misses of a problem's reference which its scorer tells from it; none where there is no way."""
    answer = problem.answer or ""
    number = parse_number(answer)
    if problem.scorer is ScorerKind.CHOICE:
        candidates = list(string.ascii_uppercase[: len(problem.choices)])
    elif number is not None:
        step = Fraction(1, number.denominator)
        candidates = [_written(number + step, answer), _written(number - step, answer), _written(-number, answer)]
    elif problem.scorer in (ScorerKind.EXACT, ScorerKind.LITERAL):
        candidates = _near(problem.scorer, answer)
    else:
        candidates = _other_digits(answer)
    return [one for one in dict.fromkeys(candidates) if one and not agree(problem.scorer, one, answer)]


def last_step(total: Fraction, stated: Fraction, rng: np.random.Generator) -> str:
    """Return working that ends with a sum which comes to ``total`` and is said to come to ``stated``."""
    part = Fraction(int(rng.integers(2, 50)))
    rest = total - part
    left = f"({_plain(rest)})" if rest < 0 or rest.denominator > 1 else _plain(rest)
    return f"{WORKED} The last step is:\n{left} + {_plain(part)} = {_plain(stated)}"


def _written(number: Fraction, like: str) -> str:
    """Return a number in the form of another: with as many decimals, or as a fraction."""
    digits = len(like.partition(".")[2].rstrip("%. $")) if "." in like else 0
    exact = number * 10**digits
    if digits and exact.denominator == 1:
        return f"{float(number):.{digits}f}"
    return _plain(number)


def _plain(number: Fraction) -> str:
    return str(number)


def _near(scorer: ScorerKind, answer: str) -> list[str]:
    try:
        return list(near_misses(scorer, answer))
    except (ArithmeticError, SyntaxError, TypeError, ValueError):
        return _other_digits(answer)


def _other_digits(answer: str) -> list[str]:
    """Return the text with one of its whole numbers made larger by one, the last ones first."""
    found = list(re.finditer(r"[0-9]+", answer))
    return [f"{answer[: at.start()]}{int(at.group()) + 1}{answer[at.end() :]}" for at in reversed(found[-3:])]
