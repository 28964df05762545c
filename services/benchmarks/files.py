"""Problems from local files (JSON lines, CSV, Parquet) by field mapping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.benchmarks import fields, mapped
from services.benchmarks.jsonl import MISSING, Line, lookup, shown
from services.benchmarks.splits import by_field, by_seed
from services.benchmarks.tables import rows
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split
from services.core.problem_source import FieldSplit, JsonlProblems, JsonlSet


@dataclass(frozen=True)
class Item:
    """A problem and the line it came from."""

    line: Line
    problem: Problem


def load(source: JsonlProblems, models: Sequence[str]) -> dict[Split, list[Problem]]:
    """Read all sets and deal them into the splits.

    Args:
        source: the files and the mapping of their fields.
        models: the pool's names; a line with recorded scores must have one for each.

    Raises:
        SpecError: an unreadable file, a broken line, a missing or empty field, a question or id given twice, a score
            outside [0, 1], or too few lines for the split; names file and line.
    """
    items = [item for one in source.sets for item in _items(one, tuple(models))]
    _require_unique(items)
    if isinstance(source.split, FieldSplit):
        return by_field(source.split, [(item.line, item.problem) for item in items])
    return by_seed(source.split, [item.problem for item in items])


def _items(one: JsonlSet, models: tuple[str, ...]) -> list[Item]:
    return [Item(line, _problem(one, line, models)) for path in one.files for line in rows(path)]


def _problem(one: JsonlSet, line: Line, models: tuple[str, ...]) -> Problem:
    key = f"{line.path.stem}:{line.number}" if one.id is None else _text(line, one.id)
    family = one.family_name or line.path.stem if one.family is None else _text(line, one.family)
    question = _text(line, one.question)
    if one.scores is not None:
        return Problem(key, family, question, one.scorer, scores=_scores(line, one.scores, models))
    choices = mapped.options(one, line) if one.choices is not None else ()
    tests = mapped.tests(one.tests, line) if one.tests is not None else None
    whole = mapped.question(one, question, choices, tests)
    problem = Problem(key, family, whole, one.scorer, _reference(one, line, choices), choices=choices, program=tests)
    return fields.checked(line, problem)


def _reference(one: JsonlSet, line: Line, choices: Sequence[str]) -> str | None:
    if choices:
        return mapped.letter(one, line, choices)
    if one.answer is None or (one.scorer is ScorerKind.JUDGE and line.field(one.answer) is None):
        return None
    return _answer(one, line)


def _text(line: Line, field: str) -> str:
    """Return a field as text; numbers are written out, everything else that is not text is an error."""
    value = line.field(field)
    text = _written(value)
    if text is None or not text.strip():
        raise SpecError(line.place, shown(value), f"text in the field {field}")
    return text


def _written(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _answer(one: JsonlSet, line: Line) -> str:
    assert one.answer is not None
    value = line.field(one.answer)
    if isinstance(value, bool) and one.scorer is ScorerKind.LITERAL:
        return str(value)
    text = _written(value)
    if text is None or not text.strip():
        raise SpecError(line.place, shown(value), f"an answer in the field {one.answer}")
    if one.answer_after is None:
        return text.strip()
    _, mark, answer = text.rpartition(one.answer_after)
    if not mark or not answer.strip():
        raise SpecError(line.place, shown(text), f"an answer after {one.answer_after!r} in the field {one.answer}")
    return answer.strip()


def _scores(line: Line, field: str, models: tuple[str, ...]) -> dict[str, float]:
    return {model: _score(line, field, model) for model in models}


def _score(line: Line, field: str, model: str) -> float:
    path = field.replace("*", model) if "*" in field else f"{field}.{model}"
    value = lookup(line.value, path)
    if value is MISSING:
        raise SpecError(line.place, f"no field {path}", f"a recorded score of the pool model {model}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise SpecError(line.place, shown(value), f"a score in [0, 1] in the field {path}")
    return float(value)


def _require_unique(items: Sequence[Item]) -> None:
    """Refuse a question or id that comes twice: it could stand in two splits, and recordings are found by question."""
    questions: dict[str, Line] = {}
    keys: dict[str, Line] = {}
    for item in items:
        known = questions.setdefault(item.problem.question, item.line)
        if known is not item.line:
            wanted = f"a question that {known.place} does not ask already"
            raise SpecError(item.line.place, shown(item.problem.question), wanted)
        known = keys.setdefault(item.problem.key, item.line)
        if known is not item.line:
            raise SpecError(item.line.place, item.problem.key, f"an id that {known.place} does not have already")
