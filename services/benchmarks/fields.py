"""Fields of a row with the type that a benchmark promises; everything else is an error that names the row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from services.benchmarks.jsonl import Line, shown
from services.core.errors import SpecError, Unscorable
from services.core.problem import Problem, ScorerKind
from services.core.scoring.scorer import check_reference


def text(line: Line, *names: str) -> str:
    """Return the first of these fields that the row has, which must be text that is not blank, or a number."""
    value = line.field(next((name for name in names if name in line.value), names[0]))
    written = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(written, str) or not written.strip():
        raise SpecError(line.place, shown(value), f"text in the field {names[0]}")
    return written


def source(line: Line, name: str) -> str:
    """Return a field with source code, which may be empty."""
    value = line.field(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SpecError(line.place, shown(value), f"source code in the field {name}")
    return value.replace("\r\n", "\n")


def whole(line: Line, name: str) -> int:
    """Return a field that is a whole number, also one written as text."""
    value = line.field(name)
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(line.place, shown(value), f"a whole number in the field {name}")
    return value


def texts(line: Line, name: str) -> tuple[str, ...]:
    """Return a field that is a list of texts, also one written as JSON."""
    value = line.field(name)
    found = parsed(line, name, value) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(one, str) for one in found):
        raise SpecError(line.place, shown(value), f"a list of texts in the field {name}")
    return tuple(found)


def parsed(line: Line, name: str, value: str) -> Any:
    """Return what a field's JSON text stands for."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise SpecError(line.place, shown(value), f"JSON in the field {name}") from error


def letter_of(line: Line, index: int, choices: Sequence[str]) -> str:
    """Return the letter of an option given by its number from 0."""
    if not 0 <= index < len(choices) <= 26:
        raise SpecError(line.place, index, f"the number of one of {len(choices)} options, at most 26, from 0")
    return chr(ord("A") + index)


def checked(line: Line, problem: Problem) -> Problem:
    """Return the problem if answers can be judged by its reference.

    Raises:
        SpecError: its reference is empty or cannot be read; names the row.
    """
    if problem.scorer is ScorerKind.PROGRAM:
        return _with_tests(line, problem)
    if problem.scorer is ScorerKind.JUDGE and problem.answer is None:
        return problem
    try:
        check_reference(problem)
    except Unscorable as error:
        wanted = f"an answer for the scorer {problem.scorer}: {error.reason}"
        raise SpecError(line.place, shown(problem.answer), wanted) from error
    return problem


def _with_tests(line: Line, problem: Problem) -> Problem:
    tests = problem.program
    if tests is None or not (tests.public or tests.hidden or tests.source.strip()):
        raise SpecError(line.place, "no test", "at least one test of the program")
    return problem
