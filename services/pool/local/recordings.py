"""Reading recorded answers (docs/recordings.md): JSON Lines files, found again by the exact text of the question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.core.errors import SpecError
from services.core.local_pool import Recordings
from services.core.problem import ScorerKind

MISSING = object()


@dataclass(frozen=True)
class Recorded:
    """What one row says.

    Attributes:
        scorer: how two answers are compared; None for score-only rows.
        answers: model -> recorded final answer, None when it gave none; only models with a record. For score-only
            rows every answer is "".
        reasoning: model -> recorded reasoning, where there is one.
    """

    scorer: ScorerKind | None
    answers: Mapping[str, str | None]
    reasoning: Mapping[str, str]


def field_at(row: object, path: str, model: str = "*") -> object:
    """Return the value at a dotted path, ``*`` standing for the model's name; MISSING when there is none."""
    for part in path.split("."):
        name = model if part == "*" else part
        if not isinstance(row, dict) or name not in row:
            return MISSING
        row = row[name]
    return row


def read_index(recordings: Sequence[Recordings], models: Sequence[str]) -> dict[str, Recorded]:
    """Return question text -> record; the first row of a question counts.

    Raises:
        OSError: a file cannot be read.
        SpecError: a line is no JSON object, or a field has a wrong type; names file and line.
    """
    index: dict[str, Recorded] = {}
    for source in recordings:
        texts = _reasoning(source.texts)
        for where, row in _rows(source.files):
            question = field_at(row, source.question)
            if not isinstance(question, str):
                raise SpecError(f"{where} {source.question}", None if question is MISSING else question, "a text")
            if question not in index:
                told = texts.get(str(field_at(row, source.id)), {})
                index[question] = Recorded(source.scorer, _answers(where, row, source, models), told)
    return index


def _answers(where: str, row: object, source: Recordings, models: Sequence[str]) -> dict[str, str | None]:
    path = source.answer if source.answer is not None else source.score
    if path is None:
        raise SpecError(f"{where}", source, "recordings with a field path for 'answer' or 'score'")
    found = ((model, field_at(row, path, model)) for model in models)
    known = {model: value for model, value in found if value is not MISSING}
    if source.answer is None:
        return dict.fromkeys((model for model, score in known.items() if score is not None), "")
    for model, value in known.items():
        if not isinstance(value, str | int | float | None):
            raise SpecError(f"{where} {path} of {model}", value, "a text, a number or null")
    return {model: None if value is None else str(value) for model, value in known.items()}


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in files:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path}:{number}", _row(f"{path}:{number}", line)


def _row(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise SpecError(where, line[:80].decode("utf-8", "replace"), f"one JSON object a line ({error})") from None
    if not isinstance(row, dict):
        raise SpecError(where, line[:80].decode("utf-8", "replace"), "one JSON object a line")
    return row


def _reasoning(files: Sequence[Path]) -> dict[str, dict[str, str]]:
    texts: dict[str, dict[str, str]] = {}
    for where, row in _rows(files):
        output = row.get("output")
        if not isinstance(output, str):
            raise SpecError(f"{where} output", output, "a text")
        texts.setdefault(str(row.get("id")), {})[str(row.get("model"))] = reasoning_in(output)
    return texts


def reasoning_in(output: str) -> str:
    """Return the reasoning of a whole recorded reply: its ``reasoning`` field when it is a JSON object, else all."""
    body = output.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        document = json.loads(body)
    except ValueError:
        return output
    reasoning = document.get("reasoning") if isinstance(document, dict) else None
    return reasoning if isinstance(reasoning, str) else output
