"""Tables of rewards: one row per answer, or one per question with the rewards of all models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from services.benchmarks.jsonl import MISSING, Line, lookup, shown
from services.benchmarks.tables import rows
from services.core.errors import SpecError
from services.core.statistics.outcome_table import Answered

STAR = "*"
ALL = "all"


@dataclass(frozen=True)
class Columns:
    """Dotted paths of the fields.

    Attributes:
        question: key of the question.
        family: its family; all questions are of one where the first row has none.
        model: name of the model; not read where ``reward`` has a star.
        reward: in [0, 1]; ``*`` stands for the models' names, e.g. ``scores.*``, and a list has one reward an answer.
        price: USD per million output tokens of the model, where there is such a field.
    """

    question: str = "question"
    family: str = "family"
    model: str = "model"
    reward: str = "reward"
    price: str = "price"


def read(path: Path, columns: Columns) -> Iterator[Answered]:
    """Yield the answers of a table.

    Raises:
        SpecError: a field is missing or no reward; names file and line.
    """
    for line in rows(path):
        question, family = _text(line, columns.question), _family(line, columns.family)
        if STAR in columns.reward:
            for model, value in _starred(line, columns.reward):
                yield from (Answered(question, family, model, each) for each in _rewards(line, value, model))
        else:
            model = _text(line, columns.model)
            value = line.field(columns.reward)
            yield from (Answered(question, family, model, each) for each in _rewards(line, value, model))


def prices(paths: Sequence[Path], columns: Columns) -> dict[str, Decimal]:
    """Return model -> USD per million output tokens, of rows that tell."""
    found: dict[str, Decimal] = {}
    if STAR in columns.reward:
        return found
    for line in (line for path in paths for line in rows(path)):
        value = lookup(line.value, columns.price)
        if value is MISSING or value in (None, ""):
            continue
        price = _price(line, value)
        if found.setdefault(_text(line, columns.model), price) != price:
            raise SpecError(line.place, value, f"one price for every row of {_text(line, columns.model)}")
    return found


def _price(line: Line, value: object) -> Decimal:
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        price = Decimal("nan")
    if not price.is_finite() or price < 0:
        raise SpecError(line.place, shown(value), "a price in USD per million output tokens")
    return price


def _starred(line: Line, path: str) -> Iterator[tuple[str, Any]]:
    before, _, after = path.partition(STAR)
    models: Any = line.field(before.rstrip(".")) if before else line.value
    if not isinstance(models, Mapping):
        raise SpecError(line.place, shown(models), f"an object with the models' names at {before.rstrip('.')}")
    for model, value in models.items():
        found = lookup(value, after.lstrip(".")) if after else value
        if found is not MISSING and found is not None:
            yield str(model), found


def _rewards(line: Line, value: Any, model: str) -> list[float]:
    return [_reward(line, each, model) for each in (value if isinstance(value, list) else [value])]


def _reward(line: Line, value: Any, model: str) -> float:
    try:
        reward = float(value)
    except (TypeError, ValueError):
        reward = math.nan
    if not 0 <= reward <= 1:
        raise SpecError(line.place, shown(value), f"a reward of {model} in [0, 1]")
    return reward


def _text(line: Line, field: str) -> str:
    value = line.field(field)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise SpecError(line.place, shown(value), f"text in the field {field}")
    return str(value)


def _family(line: Line, field: str) -> str:
    return ALL if lookup(line.value, field) is MISSING else _text(line, field)
