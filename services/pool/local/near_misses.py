"""Wrong answers that look right: the slips a model makes, one small step from the true answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from decimal import Decimal

from services.core.problem import ScorerKind
from services.core.scoring.scorer import agree


def near_misses(scorer: ScorerKind, answer: str) -> tuple[str, ...]:
    """Return at least one and at most three answers that the scorer tells from ``answer``."""
    match scorer:
        case ScorerKind.NUMERIC:
            slips = _numbers(answer)
        case ScorerKind.LITERAL:
            slips = _lists(answer)
        case _:
            slips = _fractions(answer) if re.fullmatch(r"-?\d+/\d+", answer) else _words(answer)
    wrong = [slip for slip in dict.fromkeys(slips) if not agree(scorer, slip, answer)]
    return tuple(wrong[:3])


def _numbers(answer: str) -> Iterator[str]:
    number = Decimal(answer)
    last_place = Decimal(1).scaleb(min(int(number.as_tuple().exponent), 0))
    for step in (last_place, -last_place, 10 * last_place):
        yield str(number + step)


def _fractions(answer: str) -> Iterator[str]:
    numerator, denominator = map(int, answer.split("/"))
    yield f"{numerator + 1}/{denominator}"
    yield f"{numerator}/{denominator + 1}"
    yield f"{2 * numerator}/{2 * denominator}"


def _lists(answer: str) -> Iterator[str]:
    items = ast.literal_eval(answer)
    for place in range(len(items) - 1):
        if items[place] != items[place + 1]:
            yield str([*items[:place], items[place + 1], items[place], *items[place + 2 :]])
            break
    yield str(items[:-1])
    yield str([*items, "0"])


def _words(answer: str) -> Iterator[str]:
    for place in range(len(answer) - 1):
        if answer[place].lower() != answer[place + 1].lower():
            yield answer[:place] + answer[place + 1] + answer[place] + answer[place + 2 :]
            break
    yield answer[:-1]
    yield answer + answer[-1:]
